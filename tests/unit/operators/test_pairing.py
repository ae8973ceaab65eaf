"""Rows that meet by key and lifetime, against all combinations."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from windrow.operators.tables import pairing, prefilter
from windrow.operators.tables.pairing import JoinSide, key_numbers, new_results, probing_order, touched_results
from windrow.operators.tables.prefilter import maybe_among, picked, rows_between

NAMES = ["a", "a", "a", "b", None]


def made(random: Random, inputs: int, ends: int) -> tuple[list[JoinSide], list[list[tuple[int | None, str | None]]]]:
    """Inputs with a few rows, and the two columns of their keys as tuples."""
    keys, shapes = [], []
    for _ in range(inputs):
        rows = random.randrange(8)
        keys.append([(random.choice([1, 1, 1, 1, 2, None]), random.choice(NAMES)) for _ in range(rows)])
        births = np.array([random.randrange(6) for _ in range(rows)], np.int64)
        shapes.append((births, tuple(births + random.randrange(1, 8) for _ in range(ends)), random.randint(0, rows)))
    columns = [[pa.array([k for k, _ in one], pa.int64()), pa.array([n for _, n in one], pa.string())] for one in keys]
    numbers = key_numbers(columns)
    return [JoinSide(n, *shape) for n, shape in zip(numbers, shapes, strict=True)], keys


def expected(sides: list[JoinSide], keys: list[list[tuple[int | None, str | None]]]) -> list[tuple[int, ...]]:
    found, ends_by_kind = [], list(zip(*(side.ends for side in sides), strict=True))
    for at in product(*(range(len(one)) for one in keys)):
        row = [one[i] for one, i in zip(keys, at, strict=True)]
        birth = max(int(side.births[i]) for side, i in zip(sides, at, strict=True))
        ends = [min(int(end[i]) for end, i in zip(of, at, strict=True)) for of in ends_by_kind]
        is_new = any(i >= side.old for side, i in zip(sides, at, strict=True))
        if len(set(row)) == 1 and None not in row[0] and birth < ends[0] and is_new:
            found.append((*at, birth, *ends))
    return sorted(found)


def test_table_5_2() -> None:
    """Probing orders of Golab's dissertation, if the global join order is S1, S2, S3."""
    assert [probing_order(origin, 3) for origin in range(3)] == [[0, 1, 2], [1, 0, 2], [2, 0, 1]]


@pytest.mark.parametrize("most", [1, 3, pairing.MOST_CANDIDATES])
@pytest.mark.parametrize("ends", [1, 2])
@pytest.mark.parametrize("inputs", [2, 3])
def test_every_new_result_is_found_once(monkeypatch, inputs, ends, most):
    monkeypatch.setattr(pairing, "MOST_CANDIDATES", most)
    results = 0
    for seed in range(150):
        sides, keys = made(Random(seed), inputs, ends)
        met = new_results(sides)
        found = sorted(zip(*(one.tolist() for one in (*met.rows, met.births, *met.ends)), strict=True))
        assert found == expected(sides, keys)
        results += len(found)
    assert results > 40


def test_every_touched_result_is_found_once() -> None:
    """As if the touched rows were the new ones, wherever they stand."""
    results = 0
    for seed in range(150):
        random = Random(seed)
        sides, keys = made(random, 2 + seed % 2, 1)
        touched = [np.array([random.random() < 0.4 for _ in one], bool) for one in keys]
        met = touched_results(sides, touched)
        found = sorted(zip(*(one.tolist() for one in (*met.rows, met.births, *met.ends)), strict=True))
        everything = expected([JoinSide(side.numbers, side.births, side.ends, 0) for side in sides], keys)
        some = [row for row in everything if any(mask[i] for mask, i in zip(touched, row, strict=False))]
        assert found == some
        results += len(found)
    assert results > 40


def test_null_equals_null_where_it_is_asked() -> None:
    one, other = pa.array([1, None, 2]), pa.array(["a", "a", None])
    assert [numbers.tolist() for numbers in key_numbers([[one, other], [one, other]])] == [[0, -1, -1]] * 2
    numbers, again = key_numbers([[one, other], [one, other]], [True, False])
    assert numbers.tolist() == again.tolist() and numbers[2] == -1 and numbers[1] >= 0 != numbers[1]


@pytest.mark.parametrize("wanted", [[], [3], [3, None, 700], list(range(0, 900, 7)), list(range(300, 400))])
@pytest.mark.parametrize("piece", [7, 1 << 15])
@pytest.mark.parametrize("close", [0, 1 << 18])
def test_no_row_with_a_wanted_key_is_missing(monkeypatch, wanted, piece, close) -> None:
    monkeypatch.setattr(prefilter, "_PIECE", piece)
    monkeypatch.setattr(prefilter, "CLOSE", close)
    draw = np.random.default_rng(5)
    chunks = [draw.integers(0, 1000, size).tolist() for size in (0, 1, 40, 300)]
    chunks[2][4] = None
    column = pa.chunked_array(chunks, pa.int64())
    found = maybe_among(column, pa.array(wanted, pa.int64())).tolist()
    asked = {0 if one is None else one for one in wanted}  # NULL is looked for as 0
    exact = [i for i, one in enumerate(column.to_pylist()) if (0 if one is None else one) in asked]
    assert found == sorted(set(found)) and set(exact) <= set(found) and len(found) <= len(exact) + 30
    points = pa.chunked_array([pa.array(one, pa.int64()) for one in ([5, 1], [], [9, 5, 7])])
    assert rows_between(points, 5, 9).tolist() == [0, 3, 4]


def test_rows_are_picked_from_many_chunks() -> None:
    draw = np.random.default_rng(3)
    parts = []
    for size in (5, 1, 0, 40, 7):
        numbers = draw.integers(0, 9, size)
        parts.append(
            pa.table(
                {
                    "i": pa.array(numbers.astype(np.int32)),
                    "d": pa.array(numbers / 3),
                    "n": pa.array([None if one < 3 else int(one) for one in numbers], pa.int64()),
                    "t": pa.array(numbers).cast(pa.timestamp("us", "UTC")),
                    "s": pa.array([f"s{one}" for one in numbers], pa.string()),
                    "b": pa.array(numbers > 4),
                }
            )
        )
    table = pa.concat_tables(parts)
    for rows in ([], [0], [52], [3, 4, 5, 6, 44, 52], list(range(53)), list(range(6, 20))):
        found = picked(table, np.array(rows, np.int64))
        assert found.equals(table.combine_chunks().take(pa.array(rows, pa.int64()))), rows
