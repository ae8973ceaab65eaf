"""A result iterates, indexes and converts; exact types survive, also in empty results."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from windrow.errors import UnsupportedError, WindrowError
from windrow.result import Result

MOMENT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
ITEMS = pa.list_(pa.struct([("item", pa.string()), ("count", pa.int64())]))
SCHEMA = pa.schema(
    [
        ("small", pa.int8()),
        ("big", pa.int64()),
        ("flag", pa.bool_()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(38, 2)),
        ("name", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("wall", pa.timestamp("us")),
        ("items", ITEMS),
        ("nothing", pa.null()),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "small": 1,
        "big": 2**60 + 1,
        "flag": True,
        "ratio": 0.5,
        "price": Decimal("123456789012345678901234567890.12"),
        "name": "a",
        "bytes": b"\xff",
        "day": dt.date(1, 1, 1),
        "at": MOMENT,
        "wall": MOMENT.replace(tzinfo=None),
        "items": [{"item": "x", "count": 3}],
        "nothing": None,
    },
    dict.fromkeys(SCHEMA.names),
]


def numbered(rows: int) -> Result:
    return Result(pa.table({"n": pa.array(range(rows), pa.int64())}))


@pytest.fixture(params=["rows", "empty"])
def exact(request: pytest.FixtureRequest) -> Result:
    return Result(pa.Table.from_pylist(ROWS if request.param == "rows" else [], SCHEMA))


# -- rows and columns --------------------------------------------------------------------------------


def test_rows_by_number() -> None:
    r = numbered(5)
    assert r[0] == {"n": 0} and r[-1] == {"n": 4} and r[-5] == {"n": 0} and r[np.int64(2)] == {"n": 2}
    for outside in (5, -6):
        with pytest.raises(IndexError, match=f"there is no row {outside}: the result has 5 rows"):
            r[outside]
    with pytest.raises(IndexError):
        numbered(0)[0]
    with pytest.raises(TypeError):
        r[1.5]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "at",
    [slice(2), slice(1, 3), slice(-2, None), slice(None, None, 2), slice(None, None, -1), slice(4, 1), slice(9, 12)],
)
def test_slices(at: slice) -> None:
    part = numbered(5)[at]
    assert isinstance(part, Result) and part["n"] == list(range(5))[at]
    assert part.to_arrow().schema == numbered(5).to_arrow().schema


def test_column() -> None:
    r = Result(pa.Table.from_pylist(ROWS, SCHEMA))
    assert r["price"] == [ROWS[0]["price"], None] and r["at"] == [MOMENT, None] and r["NAME"] == ["a", None]
    with pytest.raises(KeyError, match="there is no column 'nme': the columns are small, big"):
        r["nme"]


def test_iteration_in_slices() -> None:
    r = numbered(10_000)
    assert [row["n"] for row in r] == list(range(10_000)) and len(list(r)) == len(r)
    assert list(numbered(0)) == [] and r.columns == ["n"]


# -- conversions -------------------------------------------------------------------------------------


def test_arrow(exact: Result) -> None:
    assert exact.to_arrow() is exact.arrow() and exact.to_arrow().schema == SCHEMA
    assert pa.table(exact).equals(exact.to_arrow())


def test_pandas_keeps_every_type_and_value(exact: Result) -> None:
    frame = exact.to_pandas()
    assert pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata().equals(exact.to_arrow())
    assert str(frame.dtypes["at"]) == "datetime64[us, UTC]" and str(frame.dtypes["big"]) == "Int64"
    assert exact.pandas().equals(frame)


def test_polars_keeps_every_type_and_value(exact: Result) -> None:
    frame = exact.to_polars()
    assert frame.schema == {
        "small": pl.Int8,
        "big": pl.Int64,
        "flag": pl.Boolean,
        "ratio": pl.Float64,
        "price": pl.Decimal(38, 2),
        "name": pl.String,
        "bytes": pl.Binary,
        "day": pl.Date,
        "at": pl.Datetime("us", "UTC"),
        "wall": pl.Datetime("us"),
        "items": pl.List(pl.Struct({"item": pl.String, "count": pl.Int64})),
        "nothing": pl.Null,
    }
    assert frame.rows(named=True) == exact.rows()
    assert pl.DataFrame(exact).equals(frame)


def test_nan_is_no_null() -> None:
    r = Result(pa.table({"x": [1.5, float("nan"), None]}))
    assert r.to_pandas()["x"].isna().tolist()[2] and pa.array(r.to_pandas()["x"]).null_count == 1
    assert r.to_polars()["x"].is_null().to_list() == [False, False, True]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_missing_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError) as raised:
        getattr(numbered(1), f"to_{package}")()
    assert (
        str(raised.value)
        == f"[WR290] to_{package}() needs the package {package}, which is not installed\npip install {package}"
    )
    assert isinstance(raised.value, WindrowError)


def test_package_that_does_not_work(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "polars.py").write_text("import no_such_part")
    monkeypatch.delitem(sys.modules, "polars")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnsupportedError, match="cannot be imported: No module named 'no_such_part'"):
        numbered(1).to_polars()
