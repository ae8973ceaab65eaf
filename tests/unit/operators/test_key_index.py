"""Keys of stored tuples that are looked up instead of looked through: the same rows are found, chunks come and go."""

from __future__ import annotations

import gc
from random import Random

import pyarrow as pa
import pytest
from support.continuous import BIGINT, INT, Builder, batches_of, counted, plan_of, replayed, stored

from windrow.operators.advance import advance
from windrow.operators.changes import in_order
from windrow.operators.scan import StreamRows
from windrow.operators.state import PlanState
from windrow.operators.tables import key_index
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.key_index import KeyIndexes
from windrow.reference.window_operators import WindowOperators

KINDS = {"number": pa.int64(), "small": pa.int32(), "text": pa.string(), "time": pa.timestamp("us", "UTC")}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes of a few rows, of which at most a hundred are indexed together."""
    monkeypatch.setattr(key_index, "LEAST_ROWS", 10)
    monkeypatch.setattr(key_index, "MOST_ROWS", 100)
    monkeypatch.setattr(key_index, "SPARSE", 2)
    monkeypatch.setattr(key_index, "_PIECE", 7)


def drawn(random: Random, kind: str, rows: int) -> list[object]:
    keys = [random.choice([None, *range(60), *range(60)]) for _ in range(rows)]
    return [key if key is None or kind != "text" else f"{key} of {key}" for key in keys]


def exact(column: pa.ChunkedArray, wanted: pa.Array, kind: str) -> set[int]:
    """The rows that must be found. NULL is looked for as 0, except among texts."""
    asked, none = wanted.to_pylist(), pa.scalar(0, KINDS[kind]).as_py() if kind != "text" else None
    asked = [none if one is None else one for one in asked]
    return {i for i, one in enumerate(column.to_pylist()) if (none if one is None else one) in asked}


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_row_with_a_wanted_key_is_missing(small: None, kind: str) -> None:
    """Chunks come behind and go in front, and sometimes one in the middle is replaced by another, or cut."""
    random, indexes, reader = Random(7), KeyIndexes(), object()
    chunks, hits, vain, most = list[pa.Array](), 0, 0, 0
    for _ in range(300):
        chunks.append(pa.array(drawn(random, kind, random.choice([0, 1, 5, 9, 30, 70])), KINDS[kind]))
        while sum(map(len, chunks)) > 400:
            del chunks[0]
        if random.random() < 0.2:
            at = random.randrange(len(chunks))
            chunks[at] = pa.concat_arrays([chunks[at]]) if random.random() < 0.5 else chunks[at].slice(1)
        if random.random() < 0.1:
            chunks.append(chunks[random.randrange(len(chunks))])
        column = pa.chunked_array(chunks, KINDS[kind])
        wanted = pa.array(drawn(random, kind, random.choice([1, 2, 6, 300])), KINDS[kind])
        found, needed = indexes.among(reader, "k", column, wanted).tolist(), exact(column, wanted, kind)
        assert found == sorted(set(found)) and needed <= set(found) <= set(range(len(column)))
        hits, most = hits + len(needed), max(most, indexes.nbytes)
        vain += len(found) - len(needed)
    assert hits > 5_000 and vain < hits and most > 400


def test_rows_are_indexed_that_a_reader_meets_again(small: None) -> None:
    indexes, reader, wanted = KeyIndexes(), object(), pa.array([3])
    column = pa.chunked_array([list(range(20)), list(range(20))], pa.int64())
    assert indexes.among(reader, "k", column, wanted).tolist() == [3, 23] and not indexes.nbytes
    assert indexes.among(reader, "k", column, wanted).tolist() == [3, 23]
    once = indexes.nbytes
    assert 0 < once <= 8 * 40 + 100
    other = object()
    for _ in range(3):  # another reader finds what there is
        assert indexes.among(other, "k", column, wanted).tolist() == [3, 23] and indexes.nbytes == once
    later = pa.chunked_array([[3] * 20], pa.int64())
    for one in (reader, other):  # what has gone is not held
        assert indexes.among(one, "k", later, wanted).tolist() == list(range(20))
    gc.collect()
    assert not indexes.nbytes


def test_a_reader_that_does_not_come_back_is_forgotten(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "TURN", 8)
    indexes, late, reader, wanted = KeyIndexes(), object(), object(), pa.array([3])
    column, other = (pa.chunked_array([list(range(20))], pa.int64()) for _ in range(2))
    for _ in range(2):
        indexes.among(late, "k", column, wanted)
    assert indexes.nbytes
    for _ in range(2 * 8):
        indexes.among(reader, "k", other, pa.array([1] * 15))  # many keys: nothing is indexed
    gc.collect()
    assert not indexes.nbytes


@pytest.mark.parametrize("negates", [False, True])
def test_answers_do_not_depend_on_indexes(small: None, negates: bool) -> None:
    """A join and a negation tick by tick, over windows in chunks of eight rows."""
    random, b, kernel = Random(3), Builder(), Kernel()
    one, other = b.window(60, {"k": INT, "x": BIGINT}), b.window(90, {"k": INT})
    plan = plan_of(b.semi_join(one, other, on=["k"], is_anti=True) if negates else b.join(one, other, on=["k"]), 2)
    history = [
        [(t, (random.choice([None, *range(30)]), t)) for t in range(80)],
        [(t, (random.choice([None, *range(60)]),)) for t in range(80)],
    ]
    tables, state, changes, used = stored(plan, history), PlanState(), [], 0
    for due in batches_of(range(0, 180, 2), 2):
        inputs = {
            i: StreamRows(_cut(table, due.before, due.upto), _cut(table, due.before - length, due.before))
            for i, (table, length) in enumerate(zip(tables, (60, 90), strict=True))
        }
        done = advance(plan, state, inputs, due, kernel)
        state, used = done.state, max(used, kernel.indexes.nbytes)
        changes.append(in_order([done.changes]))
    naive = WindowOperators(plan, history, 2)
    for tick in range(2, 180, 2):
        assert replayed(pa.concat_tables(changes), tick) == counted(naive.answer(tick)), tick
    assert used


def _cut(table: pa.Table, lo: int, hi: int) -> pa.Table:
    """The rows of some points, of which there is one each, in chunks that stay where they are."""
    lo, hi = max(0, min(lo, table.num_rows)), max(0, min(hi, table.num_rows))
    cuts = [lo, *range(lo // 8 * 8 + 8, hi, 8), hi]
    return pa.concat_tables([table.slice(a, max(0, b - a)) for a, b in zip(cuts, cuts[1:], strict=False)])
