"""The memory source: rows in every form become a table of the schema, bad records become text, order is kept."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.sources import rows as rows_module
from windrow.dataplane.sources.rows import to_table
from windrow.dataplane.sources.spool import Spool, check
from windrow.errors import FeedError, SourceError, StateError

UTC = dt.timezone.utc
BAD = "__bad"


def stream(columns: str, rest: str = "FROM memory") -> StreamDef:
    statement = parse_one(f"CREATE STREAM s ({columns}) {rest}")
    assert isinstance(statement, CreateStream)
    return define_stream(statement)


EVERY = stream(
    "ts TIMESTAMP, n TIMESTAMP_NTZ, Key STRING, i INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(12,2), day DATE, "
    "ok BOOLEAN, raw BINARY"
)
NUMBERS = stream("k STRING, i INT")


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows without their nulls."""
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def one(row: Any, of: StreamDef = EVERY) -> dict[str, Any]:
    (found,) = rows_of(to_table(of, [row]))
    return found


def test_schema() -> None:
    for rows in ([], [{}], pa.table({"i": [1]}), pd.DataFrame({"i": [1]}), [{"i": "bad"}]):
        schema = to_table(EVERY, rows).schema
        assert schema.names == [*(name for name, _ in EVERY.columns), BAD]
        assert [schema.field(name).type for name, _ in EVERY.columns] == [kind.arrow for _, kind in EVERY.columns]


# -- values -------------------------------------------------------------------------------------------------

MOMENT = dt.datetime(2026, 1, 1, 10, tzinfo=UTC)
GOOD: list[tuple[str, Any, Any]] = [
    ("ts", MOMENT, MOMENT),
    ("ts", dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))), MOMENT),
    ("ts", dt.datetime(2026, 1, 1, 10), MOMENT),
    ("ts", "2026-01-01T10:00:00Z", MOMENT),
    ("ts", "2026-01-01 10:00:00", MOMENT),
    ("ts", "2026-01-01T12:00:00+02:00", MOMENT),
    ("ts", MOMENT.timestamp(), MOMENT),
    ("ts", -1, dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("ts", pd.Timestamp(MOMENT), MOMENT),
    ("ts", np.int64(MOMENT.timestamp()), MOMENT),
    ("ts", np.float64(MOMENT.timestamp()), MOMENT),
    ("ts", np.datetime64("2026-01-01T10:00:00.000000999"), MOMENT),
    ("n", dt.datetime(2026, 1, 1, 10), dt.datetime(2026, 1, 1, 10)),
    ("n", "2026-01-01T10:00:00", dt.datetime(2026, 1, 1, 10)),
    ("n", "2026-01-01T10:00:00+05:00", dt.datetime(2026, 1, 1, 10)),
    ("Key", "é", "é"),
    ("i", -(1 << 31), -(1 << 31)),
    ("i", 2.0, 2),
    ("i", np.int16(7), 7),
    ("i", Decimal(7), 7),
    ("b", (1 << 63) - 1, (1 << 63) - 1),
    ("d", 5, 5.0),
    ("d", (1 << 60) + 1, float(1 << 60)),
    ("d", Decimal("1.5"), 1.5),
    ("d", math.inf, math.inf),
    ("f", 0.5, 0.5),
    ("m", Decimal("1.20"), Decimal("1.20")),
    ("m", "1.2", Decimal("1.20")),
    ("m", 5, Decimal("5.00")),
    ("m", 1.25, Decimal("1.25")),
    ("m", np.int8(5), Decimal("5.00")),
    ("m", Decimal("1.500"), Decimal("1.50")),
    ("day", dt.date(2026, 1, 1), dt.date(2026, 1, 1)),
    ("day", "2026-01-01", dt.date(2026, 1, 1)),
    ("ok", False, False),
    ("raw", b"\xff", b"\xff"),
]


@pytest.mark.parametrize(("name", "value", "kept"), GOOD)
def test_values_that_fit(name: str, value: Any, kept: Any) -> None:
    found = one({name: value})
    assert found == {name: kept} and type(found[name]) is type(kept)


def test_nan_is_not_null() -> None:
    assert math.isnan(one({"d": math.nan})["d"])


@pytest.mark.parametrize("name", [name for name, _ in EVERY.columns])
def test_missing_values_are_null(name: str) -> None:
    assert one({name: None}) == {} == one({})


def test_nat_is_null() -> None:
    assert one({"ts": pd.NaT}) == {}


MISFITS: list[tuple[str, Any]] = [
    ("ts", "yesterday"),
    ("ts", True),
    ("ts", dt.date(2026, 1, 1)),
    ("ts", math.nan),
    ("ts", math.inf),
    ("ts", 10**30),
    ("Key", 5),
    ("Key", True),
    ("Key", "\ud800"),
    ("Key", b"\xff"),
    ("i", 1 << 31),
    ("i", 1.5),
    ("i", "5"),
    ("i", True),
    ("i", np.bool_(True)),
    ("i", math.nan),
    ("b", 1 << 63),
    ("d", "1.5"),
    ("d", True),
    ("d", 10**400),
    ("m", "1.234"),
    ("m", 1.125),
    ("m", Decimal("1.125")),
    ("m", math.inf),
    ("m", math.nan),
    ("m", "x"),
    ("m", Decimal("NaN")),
    ("m", 10**11),
    ("m", True),
    ("day", "someday"),
    ("ok", 1),
    ("raw", 5),
]


@pytest.mark.parametrize(("name", "value"), MISFITS)
def test_values_that_do_not_fit(name: str, value: Any) -> None:
    """The other rows stay in their places."""
    table = to_table(EVERY, [{"i": 1}, {"f": 0.5, name: value}, {"i": 3}])
    first, bad, last = rows_of(table)
    assert (first, last) == ({"i": 1}, {"i": 3})
    assert list(bad) == [BAD] and name in bad[BAD]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"k": "a", "i": 1, "more": 2}, '{"k": "a", "i": 1, "more": 2}'),
        ({"k": "a", "K": "b"}, '{"k": "a", "K": "b"}'),
        ({1: 2}, '{"1": 2}'),
        (("a",), '["a"]'),
        (("a", 1, 2), '["a", 1, 2]'),
        ({("a", 1): 2}, "{('a', 1): 2}"),
        (5, "5"),
        (None, "null"),
        ("a", '"a"'),
    ],
)
def test_records_of_another_shape(row: Any, text: str) -> None:
    assert rows_of(to_table(NUMBERS, [row, ("good", 1)])) == [{BAD: text}, {"k": "good", "i": 1}]


def test_bad_record_without_json() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for row in (loop, {"k": loop}, {"k": {1, 2}}, {"k": "\ud800"}):
        found = one(row, NUMBERS)
        assert list(found) == [BAD] and found[BAD]


# -- forms of rows ------------------------------------------------------------------------------------------------

WANTED = [{"k": "a", "i": 1}, {"k": "b"}]


@pytest.mark.parametrize(
    "rows",
    [
        [{"k": "a", "i": 1}, {"k": "b", "i": None}],
        ({"k": k, "i": i} for k, i in [("a", 1), ("b", None)]),
        [("a", 1), ("b", None)],
        [["a", 1], ["b", None]],
        ({"k": "a", "i": 1}, {"k": "b"}),
        [{"K": "a", "I": 1}, {"k": "b"}],
        [("a", 1), {"k": "b"}],
        pa.table({"i": pa.array([1, None], pa.int64()), "K": ["a", "b"]}),
        pa.table({"k": pa.array(["a", "b"]).dictionary_encode(), "i": pa.chunked_array([[1], [None]], pa.int8())}),
        pa.record_batch({"k": ["a", "b"], "i": pa.array([1, None], pa.int32())}),
        pd.DataFrame({"k": ["a", "b"], "i": [1, None]}),
        pd.DataFrame({"k": ["a", "b"], "i": [1, None]}, index=[5, 6]),
    ],
    ids=[
        "dicts",
        "generator",
        "tuples",
        "lists",
        "tuple",
        "case",
        "mixed",
        "Arrow",
        "chunks",
        "batch",
        "pandas",
        "index",
    ],
)
def test_forms_of_rows(rows: Any) -> None:
    assert rows_of(to_table(NUMBERS, rows)) == WANTED


def test_spelling_of_columns() -> None:
    found = to_table(NUMBERS, [{"K": "a"}, {"k": "b"}, {"K": "c"}])
    assert found.column("k").to_pylist() == ["a", "b", "c"]


def test_naive_times_are_utc() -> None:
    times = stream("ts TIMESTAMP")
    naive = dt.datetime(2026, 1, 1, 10)
    for rows in (
        pd.DataFrame({"ts": pd.to_datetime(["2026-01-01 10:00"])}),
        pd.DataFrame({"ts": pd.to_datetime(["2026-01-01 11:00"]).tz_localize("Europe/Paris")}),
        pa.table({"ts": pa.array([naive], pa.timestamp("ns"))}),
        pa.table({"ts": pa.array([naive], pa.timestamp("s"))}),
        pa.table({"ts": ["2026-01-01 10:00:00"]}),
    ):
        assert rows_of(to_table(times, rows)) == [{"ts": MOMENT}]


def test_nanoseconds() -> None:
    frame = pd.DataFrame({"ts": [pd.Timestamp("2026-01-01 10:00:00.000000999")]})
    assert rows_of(to_table(stream("ts TIMESTAMP"), frame)) == [{"ts": MOMENT}]


AT = 1_767_261_600
FIVE = dt.timezone(dt.timedelta(hours=5))
ALIKE: list[tuple[str, list[Any]]] = [
    ("TIMESTAMP", [AT, -1, 0]),
    ("TIMESTAMP", [AT + 0.25, -0.5]),
    ("TIMESTAMP", ["2026-01-01 10:00:00", "2026-01-01T12:00:00+05:00", "2026-01-01", "soon"]),
    ("TIMESTAMP", [dt.datetime(2026, 1, 1, 10), dt.datetime(1960, 1, 1, 10, 0, 0, 7)]),
    ("TIMESTAMP", [dt.datetime(2026, 1, 1, 12, tzinfo=FIVE)]),
    ("TIMESTAMP", [dt.date(2026, 1, 1)]),
    ("TIMESTAMP", [True, False]),
    ("TIMESTAMP", [Decimal("1.5")]),
    ("TIMESTAMP_NTZ", [AT, -1]),
    ("TIMESTAMP_NTZ", ["2026-01-01T12:00:00+05:00"]),
    ("TIMESTAMP_NTZ", [dt.datetime(2026, 1, 1, 12, tzinfo=FIVE)]),
    ("TIMESTAMP_NTZ", [dt.datetime(2026, 1, 1, 12)]),
    ("DECIMAL(5,2)", [1.25, 1.5, 2.0, 1.125, 1000.0]),
    ("DECIMAL(5,2)", [Decimal("1.25"), Decimal("1.250"), Decimal("1.125"), Decimal("1000")]),
    ("DECIMAL(5,2)", [1, 999, 1000]),
    ("DECIMAL(5,2)", ["1.25", "1.125", "x"]),
    ("DECIMAL(5,2)", [True]),
    ("INT", [1.0, 1.5, 1e10]),
    ("INT", [True]),
    ("INT", ["1"]),
    ("INT", [Decimal("1"), Decimal("2"), Decimal("3.5")]),
    ("TINYINT", [1, 200]),
    ("DOUBLE", [(1 << 53) + 1, 3]),
    ("DOUBLE", [Decimal("1.5")]),
    ("FLOAT", [0.1, 1e300]),
    ("FLOAT", [(1 << 24) + 1]),
    ("BOOLEAN", [1, 0]),
    ("STRING", [1]),
    ("STRING", [1.5]),
    ("STRING", [dt.date(2026, 1, 1)]),
    ("STRING", [b"a", b"\xff"]),
    ("BINARY", ["a"]),
    ("DATE", ["2026-01-01", "x"]),
    ("DATE", [dt.datetime(2026, 1, 1, 23)]),
]


@pytest.mark.parametrize(("kind", "values"), ALIKE)
def test_values_mean_the_same_in_every_form(kind: str, values: list[Any]) -> None:
    of = stream(f"x {kind}")

    def taken(rows: Any) -> list[Any]:
        found = to_table(of, rows)
        is_bad = [text is not None for text in found.column(BAD).to_pylist()]
        return list(zip(found.column("x").to_pylist(), is_bad, strict=True))

    wanted = taken([(v,) for v in values])
    assert taken([(v,) for v in pd.Series(values)]) == wanted, "values of numpy in a list"
    assert taken(pa.table({"x": values})) == wanted
    assert taken(pd.DataFrame({"x": values})) == wanted
    assert taken(pd.DataFrame({"x": pd.Series(values, dtype=object)})) == wanted
    if not isinstance(values[0], (bool, dt.date, dt.datetime, bytes)):
        assert taken(pa.table({"x": pa.array(values).dictionary_encode()})) == wanted
        assert taken(pd.DataFrame({"x": values}, dtype="category")) == wanted


def test_one_bad_cell_of_a_frame() -> None:
    frame = pd.DataFrame({"k": ["a", 5, None, "d", "e"], "i": [1, 2, "three", None, 5]})
    assert rows_of(to_table(NUMBERS, frame)) == [
        {"k": "a", "i": 1},
        {BAD: '{"k": 5, "i": 2}'},
        {BAD: '{"k": null, "i": "three"}'},
        {"k": "d"},
        {"k": "e", "i": 5},
    ]


def test_missing_values_of_pandas() -> None:
    for missing in (None, float("nan"), pd.NA, pd.NaT):
        frame = pd.DataFrame({"k": pd.Series(["a", missing], dtype=object), "i": pd.Series([1, None], dtype="Int64")})
        assert rows_of(to_table(NUMBERS, frame)) == [{"k": "a", "i": 1}, {}]


def test_columns_without_an_arrow_type() -> None:
    frame = pd.DataFrame({"k": ["a", "b"], "i": pd.Series([1j, None])})
    assert [BAD in row for row in rows_of(to_table(NUMBERS, frame))] == [True, False]
    periods = pd.DataFrame({"ts": pd.period_range("2026-01", periods=2, freq="M")})
    assert [BAD in row for row in rows_of(to_table(stream("ts TIMESTAMP"), periods))] == [True, True]


def test_time_beyond_python() -> None:
    table = pa.table({"n": pa.array([10**17, 0], pa.timestamp("s"))})
    bad, good = rows_of(to_table(stream("n TIMESTAMP_NTZ"), table))
    assert "100000000000000000 timestamp" in bad[BAD] and good == {"n": dt.datetime(1970, 1, 1)}


@pytest.mark.parametrize("names", [("k", "k"), ("k", "K")])
def test_column_given_twice(names: tuple[str, str]) -> None:
    frame = pd.DataFrame([["a", "b"]], columns=list(names))
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=list(names))
    for rows in (frame, table):
        with pytest.raises(FeedError, match="given twice"):
            to_table(NUMBERS, rows)


def test_one_bad_value_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    array = rows_module._array

    def counted(values: list[Any], kind: Any) -> pa.Array:
        tried.append(len(values))
        return array(values, kind)

    monkeypatch.setattr(rows_module, "_array", counted)
    table = to_table(stream("i INT"), [(n if n != 700 else "x",) for n in range(1000)])
    assert [n for n, bad in enumerate(table.column(BAD).to_pylist()) if bad] == [700]
    assert len(tried) <= 25


def test_table_with_a_bad_value() -> None:
    table = pa.table({"k": ["a", "b"], "i": [1 << 40, 2]})
    assert rows_of(to_table(NUMBERS, table)) == [{BAD: json.dumps({"k": "a", "i": 1 << 40})}, {"k": "b", "i": 2}]


def test_table_with_an_unknown_column() -> None:
    with pytest.raises(FeedError, match="no column 'nope'") as raised:
        to_table(NUMBERS, pa.table({"nope": [1]}))
    assert raised.value.remedy == "Its columns: k, i."


@pytest.mark.parametrize("rows", [5, None, "text", b"bytes", {"k": "a"}, pd.Series([1])])
def test_not_a_list_of_rows(rows: Any) -> None:
    with pytest.raises(FeedError, match="feed takes a list"):
        to_table(NUMBERS, rows)


integers = st.none() | st.integers(-(1 << 31), (1 << 31) - 1)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, integers), max_size=8), st.lists(st.integers(0, 7), max_size=3))
def test_forms_agree_with_bad_records(rows: list[tuple[str | None, int | None]], spoilt: list[int]) -> None:
    wanted = to_table(NUMBERS, rows).to_pylist()
    assert [(row["k"], row["i"]) for row in wanted] == rows
    assert to_table(NUMBERS, [{"k": k, "i": i} for k, i in rows]).to_pylist() == wanted
    columns = {"k": pa.array([k for k, _ in rows], pa.string()), "i": pa.array([i for _, i in rows], pa.int64())}
    assert to_table(NUMBERS, pa.table(columns)).to_pylist() == wanted
    mixed: list[Any] = [("bad", "bad") if n in spoilt else row for n, row in enumerate(rows)]
    found = to_table(NUMBERS, mixed).to_pylist()
    for n, row in enumerate(found):
        assert row == wanted[n] if n not in spoilt else row == {"k": None, "i": None, BAD: '["bad", "bad"]'}


# -- files --------------------------------------------------------------------------------------------------------


def spooled(directory: Path) -> list[Path]:
    """The files in Spark's order: by modification time."""
    return sorted(directory.glob("feed-*.parquet"), key=lambda path: path.stat().st_mtime_ns)


def contents(directory: Path) -> list[int]:
    return [i for path in spooled(directory) for i in pq.read_table(path).column("i").to_pylist()]


def test_order_of_files(tmp_path: Path) -> None:
    spool = Spool(NUMBERS, tmp_path)
    for i in range(20):
        assert spool.write([("a", i)], 1000) == 1
    assert contents(tmp_path) == list(range(20))
    times = [path.stat().st_mtime_ns for path in spooled(tmp_path)]
    assert len(set(times)) == 20 and all(t % 1_000_000 == 0 for t in times)


def test_clock_set_back(tmp_path: Path) -> None:
    spool = Spool(NUMBERS, tmp_path)
    for i, now_ms in enumerate([5000, 4000, 4500, 6000, 1]):
        spool.write([("a", i)], now_ms)
    assert contents(tmp_path) == [0, 1, 2, 3, 4]
    again = Spool(NUMBERS, tmp_path)
    again.write([("a", 5)], 1)
    assert contents(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_names_are_never_reused(tmp_path: Path) -> None:
    """Spark remembers the files it has read by name, for ever, and deletes them."""
    names: set[str] = set()
    for _ in range(5):
        Spool(NUMBERS, tmp_path).write([("a", 1)], 1000)
        (path,) = spooled(tmp_path)
        names.add(path.name)
        path.unlink()
    assert len(names) == 5


def test_concurrent_feeds(tmp_path: Path) -> None:
    spool = Spool(NUMBERS, tmp_path)
    threads = [threading.Thread(target=lambda n=n: spool.write([("a", n)], 1000)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(contents(tmp_path)) == list(range(16))
    assert len({path.stat().st_mtime_ns for path in spooled(tmp_path)}) == 16


def test_feed_without_rows(tmp_path: Path) -> None:
    assert Spool(NUMBERS, tmp_path).write([], 1000) == 0
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".feed-000000000001000-0badcafe.tmp").write_bytes(b"half")
    (tmp_path / "note").write_text("the user's")
    Spool(NUMBERS, tmp_path / "." / "")
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(NUMBERS, tmp_path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StateError, match="No space left") as raised:
            spool.write([("a", 1)], 1000)
    assert raised.value.remedy and list(tmp_path.iterdir()) == []
    assert spool.write([("a", 2)], 1000) == 1
    assert contents(tmp_path) == [2]


def test_bad_records_are_spooled(tmp_path: Path) -> None:
    assert Spool(NUMBERS, tmp_path).write([("a", 1), 5], 1000) == 2
    (path,) = spooled(tmp_path)
    assert pq.read_table(path).column(BAD).to_pylist() == [None, "5"]


def test_memory_takes_no_options() -> None:
    check(NUMBERS)
    with pytest.raises(SourceError, match="no options"):
        check(stream("i INT", "FROM memory OPTIONS (path 'x')"))


def test_closed_spool(tmp_path: Path) -> None:
    spool = Spool(NUMBERS, tmp_path)
    spool.close()
    with pytest.raises(StateError, match="no more rows"):
        spool.write([("a", 1)], 1000)
    assert list(tmp_path.iterdir()) == []
