"""Small Arrow tables in Spark: a micro-batch passed directly, and one-time queries over tables."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from windrow.cql.names import quote_name
from windrow.errors import BindError, ExecutionError, ResultLimitError, first_line
from windrow.types import SqlType

_NAME = re.compile(r"`([^`]*)`")
_TOO_LARGE = "spark.driver.maxResultSize"
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def whole(table: pa.Table) -> pa.Table:
    """The table in one chunk: Spark loses rows of one that begins with several empty chunks."""
    return table.combine_chunks()


def frame_of(spark: SparkSession, table: pa.Table, partitions: int | None) -> DataFrame:
    df = spark.createDataFrame(whole(table))
    return df if partitions is None else df.repartition(partitions)


def query_tables(spark: SparkSession, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run Spark SQL over tables, which have these names during the call."""
    with translated(), _views(spark, tables):
        frame = spark.sql(sql)
        check_columns(frame.columns)
        return frame.toArrow()


def columns_of(spark: SparkSession, sql: str, schemas: Mapping[str, pa.Schema]) -> list[str]:
    """The columns of a query's result, from Spark's analyser; no job runs."""
    with translated(), _views(spark, {name: schema.empty_table() for name, schema in schemas.items()}):
        columns = list(spark.sql(sql).columns)
    check_columns(columns)
    return columns


def check_columns(names: Sequence[str]) -> None:
    """Raise if two columns of a result have one name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BindError(f"two columns of the result are called '{twice}'", remedy="Name one of them: AS …")


def points_of(spark: SparkSession, constants: Sequence[str], kinds: Sequence[SqlType]) -> list[int | None]:
    """The points for which constant expressions stand if they are compared with columns of these types. None for NULL,
    for values of other types, and for all if Spark refuses one."""
    try:
        with unlogged():
            frame = spark.sql("SELECT " + ", ".join(f"({text}) AS c{i}" for i, text in enumerate(constants)))
            found = [field.dataType.simpleString() for field in frame.schema.fields]
            points = [_point_sql(i, *both) for i, both in enumerate(zip(found, kinds, strict=True))]
            return list(frame.selectExpr(*points).head() or ())
    except PySparkException:
        return [None] * len(constants)


def _point_sql(number: int, found: str, kind: SqlType) -> str:
    column = f"c{number}"
    if kind.is_timestamp and found in ("timestamp", "timestamp_ntz", "date", "string"):
        moment = f"CAST({column} AS {kind})" if found == "string" else column  # Spark reads a text as the other's type
        return f"unix_micros(CAST({moment} AS TIMESTAMP)) AS {column}"
    if kind.is_integer and found in ("tinyint", "smallint", "int", "bigint"):
        return f"CAST({column} AS BIGINT) AS {column}"
    return f"CAST(NULL AS BIGINT) AS {column}"


def schema_of(schema: pa.Schema) -> StructType:
    """An Arrow schema as Spark's; times without a zone stay so."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


@contextmanager
def _views(spark: SparkSession, tables: Mapping[str, pa.Table]) -> Iterator[None]:
    """Register tables as views. The caller gives names that no other thread uses."""
    try:
        for name, table in tables.items():
            spark.createDataFrame(whole(table), schema=schema_of(table.schema)).createOrReplaceTempView(
                quote_name(name)
            )
        yield
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)


@contextmanager
def translated() -> Iterator[None]:
    """Turn Spark's errors about a query into BindError, and those of its jobs into ExecutionError."""
    try:
        with unlogged():
            yield
    except (AnalysisException, ParseException) as error:
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise _unknown_column(error.getMessageParameters() or {}) from None
        raise BindError(_reason(error), remedy="Spark SQL refuses this query.") from None
    except PySparkException as error:
        raise _failed(error, _reason(error)) from None
    except Py4JJavaError as error:
        raise _failed(error, first_line(error)) from None


def _failed(error: Exception, reason: str) -> ExecutionError:
    """The error of a job. Spark ends one whose results would fill the driver."""
    if _TOO_LARGE in str(error):
        return ResultLimitError(
            f"the rows that Spark collects for this query are too many: {reason}",
            remedy="Ask for less (LIMIT, WHERE, an aggregate, fewer columns).",
        )
    return ExecutionError(reason, remedy="Spark SQL failed to evaluate this query.")


def _unknown_column(told: Mapping[str, str]) -> BindError:
    name = _NAME.findall(told.get("objectName", "") or "``")[-1]
    known = told.get("proposal", "").replace("`", "")
    return BindError(f"there is no column '{name}'", remedy=f"Columns with similar names: {known}." if known else None)


def _reason(error: Exception) -> str:
    """The first line of Spark's message, without its place, which refers to generated text."""
    return re.sub(r"(\. SQLSTATE: \w+)?; line \d+ pos \d+;?$", "", first_line(error))


class _Silence:
    """Loggers that are disabled while any thread wants it."""

    def __init__(self, names: Sequence[str]):
        self._names = names
        self._lock = threading.Lock()
        self._wanted = 0
        self._before: list[tuple[PySparkLogger, bool]] = []

    def begin(self) -> None:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                loggers = [PySparkLogger.getLogger(name) for name in self._names]
                self._before = [(logger, logger.disabled) for logger in loggers]
                for logger in loggers:
                    logger.disabled = True

    def end(self) -> None:
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0:
                for logger, disabled in self._before:
                    logger.disabled = disabled


_SILENCE = _Silence(_LOGGERS)


@contextmanager
def unlogged() -> Iterator[None]:
    """Silence PySpark, which logs errors of analysis with their stack before it raises them."""
    _SILENCE.begin()
    try:
        yield
    finally:
        _SILENCE.end()
