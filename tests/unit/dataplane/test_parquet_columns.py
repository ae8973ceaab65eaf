"""Which Parquet types fit which column types: what fits, Spark reads with the same values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windrow.dataplane.sources.columns.heads import _HadoopFile
from windrow.dataplane.sources.columns.parquet_columns import columns_of, read_footers
from windrow.types import SqlType

_DAY, _MOMENT = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5)
_UTC = _MOMENT.replace(tzinfo=dt.UTC)

DECLARED = (
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(5,2) DECIMAL(9,0) DECIMAL(10,0) DECIMAL(12,2)"
    " DECIMAL(19,0) DECIMAL(20,0) DECIMAL(38,2) STRING BINARY DATE TIMESTAMP TIMESTAMP_NTZ"
).split()

_OF_INT32 = "DOUBLE DECIMAL(10,0) DECIMAL(12,2) DECIMAL(19,0) DECIMAL(20,0) DECIMAL(38,2)"

TYPES: dict[pa.DataType, tuple[Any, str]] = {
    pa.bool_(): (True, "BOOLEAN"),
    pa.int8(): (-128, f"TINYINT SMALLINT INT BIGINT {_OF_INT32}"),
    pa.int16(): (-(2**15), f"SMALLINT INT BIGINT {_OF_INT32}"),
    pa.int32(): (-(2**31), f"INT BIGINT {_OF_INT32}"),
    pa.int64(): (-(2**63), "BIGINT DECIMAL(20,0) DECIMAL(38,2)"),
    pa.uint8(): (2**8 - 1, "SMALLINT INT BIGINT DOUBLE"),
    pa.uint16(): (2**16 - 1, "INT BIGINT DOUBLE"),
    pa.uint32(): (2**32 - 1, "BIGINT"),
    pa.uint64(): (2**64 - 1, "DECIMAL(20,0)"),
    pa.float32(): (1.5, "FLOAT DOUBLE"),
    pa.float64(): (1.1, "DOUBLE"),
    pa.decimal128(5, 2): (Decimal("123.45"), "DECIMAL(5,2) DECIMAL(12,2) DECIMAL(38,2)"),
    pa.decimal128(30, 2): (Decimal("1.25"), "DECIMAL(38,2)"),
    pa.string(): ("a", "STRING BINARY"),
    pa.large_string(): ("a", "STRING BINARY"),
    pa.dictionary(pa.int32(), pa.string()): ("a", "STRING BINARY"),
    pa.binary(): (b"a", "STRING BINARY"),
    pa.binary(2): (b"ab", "BINARY"),
    pa.date32(): (_DAY, "DATE TIMESTAMP_NTZ"),
    pa.timestamp("ms"): (_MOMENT, "TIMESTAMP TIMESTAMP_NTZ"),
    pa.timestamp("us"): (_MOMENT, "TIMESTAMP TIMESTAMP_NTZ"),
    pa.timestamp("us", "UTC"): (_UTC, "TIMESTAMP"),
    pa.timestamp("ns"): (None, ""),
    pa.timestamp("ns", "UTC"): (None, ""),
    pa.time64("us"): (None, ""),
    pa.null(): (None, ""),
    pa.list_(pa.int32()): (None, ""),
    pa.struct([("a", pa.int32())]): (None, ""),
}


def _columns(table: pa.Table, path: Path) -> dict[str, Any]:
    pq.write_table(table, path)
    return {column.name: column for column in columns_of(pq.read_metadata(path).schema)}


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_which_types_fit(kind: pa.DataType, tmp_path: Path) -> None:
    column = _columns(pa.table({"c": pa.array([None], kind)}), tmp_path / "a.parquet")["c"]
    assert [name for name in DECLARED if column.is_fit(SqlType(name))] == [
        n for n in DECLARED if n in TYPES[kind][1].split()
    ]
    assert (column.sql is None) == (not TYPES[kind][1])
    assert column.sql is None or column.is_fit(SqlType(column.sql)), "the type that the error suggests"


def test_spark_reads_what_fits(spark: Any, tmp_path: Path) -> None:
    pairs = [(kind, value, declared) for kind, (value, fits) in TYPES.items() for declared in fits.split()]
    arrays = {f"c{i}": pa.array([value], kind) for i, (kind, value, _) in enumerate(pairs)}
    pq.write_table(pa.table(arrays), tmp_path / "a.parquet")
    schema = ", ".join(f"c{i} {declared}" for i, (_, _, declared) in enumerate(pairs))
    (row,) = spark.read.schema(schema).parquet(str(tmp_path / "a.parquet")).toArrow().to_pylist()
    for (kind, value, declared), found in zip(pairs, row.values(), strict=True):
        assert _plain(found) == _plain(value), (kind, declared)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return dt.datetime(value.year, value.month, value.day) if isinstance(value, dt.date) else value


def test_hadoop_opens_what_python_cannot(spark: Any, tmp_path: Path) -> None:
    """The file systems of a cluster: read through the JVM, footers are the same."""
    path = tmp_path / "a b.parquet"
    pq.write_table(pa.table({"c": [1, 2, 3]}), path)
    with _HadoopFile(spark, path.as_uri(), unpack=False) as file:
        assert pq.read_metadata(file).num_rows == 3
    assert read_footers(spark, [(tmp_path / "none.parquet").as_uri(), path.as_uri()])[0].columns[0].sql == "BIGINT"
    with pytest.raises(OSError, match="does not exist"):
        _HadoopFile(spark, (tmp_path / "none.parquet").as_uri(), unpack=False)
