"""The admission rule has two forms, Spark SQL and NumPy: they agree on every row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.patterns import parse_pattern
from windrow.cql.statements import ColumnDef, CreateStream, Policy
from windrow.dataplane.ingest import admission as rule
from windrow.dataplane.ingest.admission import POINT_BOUND, Admission, AxisBound, Reach
from windrow.dataplane.ingest.job import MicroBatch
from windrow.dataplane.ingest.promised import promised_columns
from windrow.types import SqlType
from windrow.windows.promises import Promise, Promises, announced_by, united

some = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))

TYPES = {name: SqlType(kind) for name, kind in (("n", "BIGINT"), ("ts", "TIMESTAMP"), ("k", "STRING"), ("d", "DOUBLE"))}
TYPES["said"] = SqlType("STRING")
AXES = {"n": TYPES["n"], "ts": TYPES["ts"]}
STREAM = StreamDef(
    CreateStream("s", tuple(ColumnDef(name, kind.name) for name, kind in TYPES.items()), "memory"),
    tuple(TYPES.items()),
    "n",
    (Punctuated("n", TYPES["n"], Policy.ORDERED), Punctuated("ts", TYPES["ts"], Policy.ORDERED)),
    punctuation="said",
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Bounds lie among the points, at their ends, and beyond them.
ENDS = [s * (POINT_BOUND + d) for s in (1, -1) for d in (-1, 0, 1)]
near = st.integers(-6, 6)
frontiers = st.none() | near | st.sampled_from(ENDS)
numbers = st.lists(st.none() | near | st.sampled_from([*ENDS, (1 << 63) - 1, -(1 << 63)]), min_size=2, max_size=9)
moments = st.lists(st.none() | near | st.sampled_from([ENDS[0], 10**18 + 5]), min_size=2, max_size=5)
patterns = st.lists(
    st.tuples(
        st.sampled_from(["k = 'a'", "k = NULL", "k IN ('a', '')", "k > 'a'", "d = 0", "d >= 1.5", "d < 2", "d = NULL"]),
        st.sampled_from(["", ", n < {v}", ", ts < {v}", ", d BETWEEN -1 AND 2, n <= {v}", ", n = {v}"]),
        near,
    ),
    max_size=5,
)
reaches = st.builds(
    Reach,
    st.sampled_from(sorted(AXES)),
    near | st.sampled_from(ENDS),
    st.none() | st.tuples(st.integers(2, 5), st.integers(0, 4), st.integers(1, 2)),
)
excuses = st.lists(st.lists(reaches, max_size=2).map(tuple), max_size=3).map(tuple)


def promises_of(written: list[tuple[str, str, int]], many: bool) -> tuple[Promise, ...]:
    """The promises of some patterns; with `many`, also of more values of one column than Spark tests one by one."""
    told = []
    for first, rest, v in written:
        value = f"'{EPOCH + timedelta(microseconds=v)}'" if "ts" in rest else v
        told.append(announced_by(parse_pattern(first + rest.format(v=value), TYPES), AXES))
    bounds = {chr(ord("a") + i): i - 10 for i in range(20)} | {"": POINT_BOUND, "z": POINT_BOUND + 1}
    listed = (
        [announced_by(parse_pattern(f"k = '{k}', n < {v}", TYPES), AXES) for k, v in bounds.items()] if many else []
    )
    return tuple(Promises().after(united([*told, *listed]).promises, {}))


def admission_of(
    bounds: tuple[int | None, int | None], latest: int | None, ended: bool, excused: Any, promises: Any
) -> Admission:
    each = tuple(map(AxisBound, STREAM.punctuated, bounds, (None, latest)))
    return Admission(each, ended=ended, excused=excused, promises=promises)


admissions = st.builds(
    admission_of,
    st.tuples(frontiers, frontiers),
    st.none() | near | st.sampled_from(ENDS),
    st.sampled_from([False, False, False, True]),
    excuses,
    st.builds(promises_of, patterns, st.booleans()),
)
everything = admission_of((POINT_BOUND + 1, -POINT_BOUND), 5, False, (), promises_of([], True))


def rows_of(spark: Any, points: list[int | None], instants: list[int | None]) -> Any:
    """A row for each combination of values, in one partition."""
    values = (points, instants, ["a", "b", "", "z", None], [0.0, -0.0, 1.5, float("nan"), None])
    records = [(*row, None, None) for row in product(*values)]
    records += [(n, t, "a", 0.0, said, bad) for n in points for t in instants for said, bad in FLAWS]
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.string(), pa.string())
    names = ("n", "us", "k", "d", "said", rule.BAD)
    columns = zip(names, zip(*records, strict=True), kinds, strict=True)
    df = spark.createDataFrame(pa.table({name: pa.array(column, kind) for name, column, kind in columns}))
    return df.selectExpr("n", "timestamp_micros(us) AS ts", "k", "d", "said", rule.BAD).coalesce(1)


FLAWS = [("n < 3", None), (None, "not a record"), ("n < 3", "not a record")]


def said_by_spark(judge: Admission, i: int) -> list[str]:
    """What Spark says of rows with points, in columns of the i-th admission."""
    moves = rule.advances_sql(STREAM, judge)
    return [
        f"{rule.reason_sql(STREAM, judge, True)} AS reason{i}",
        f"{rule.on_time_sql(STREAM, judge) or 'true'} AS on_time{i}",
        *(f"{moves.get(axis, 'true')} AS advances_{axis}{i}" for axis in AXES),
    ]


def in_both_forms(spark: Any, points: list[int | None], instants: list[int | None], judges: list[Admission]) -> Any:
    """By admission, in one job: the gathered rows, and what Spark says of them."""
    df = rows_of(spark, points, instants).selectExpr("*", *rule.points_sql(STREAM))
    said = [sql for i, judge in enumerate(judges) for sql in said_by_spark(judge, i)]
    table = df.selectExpr("*", *said).toArrow()
    for i, judge in enumerate(judges):
        columns = {f"__t{axis}": table[f"__t{axis}"] for axis in range(2)}
        columns |= {"__malformed": table[rule.BAD].is_valid(), "__punctuation": table["said"]}
        columns |= {f"__promised{c}": table[name] for c, name in enumerate(promised_columns(judge.promises))}
        columns |= {name: table[f"{name}{i}"] for name in ("reason", "on_time", "advances_n", "advances_ts")}
        yield judge, pa.table(columns)


@pytest.mark.hypothesis
@some
@example([None, *ENDS, (1 << 63) - 1, -(1 << 63)], [0, None], [everything])
@given(numbers, moments, st.lists(admissions, min_size=2, max_size=4))
def test_spark_and_numpy_admit_the_same_rows(
    spark: Any, points: list[int | None], instants: list[int | None], judges: list[Admission]
) -> None:
    for judge, table in in_both_forms(spark, points, instants, judges):
        judged = rule.judged(table, STREAM, judge)
        assert judged["__reason"].to_pylist() == table["reason"].to_pylist()
        admitted = judged.filter(judged["__reason"].is_null())
        found = {column: admitted[name].to_numpy() for column, name in rule.point_columns(STREAM).items()}
        all_true = [True] * admitted.num_rows
        on_time, moves = rule.on_time(found, judge), rule.advances(found, judge)
        assert admitted["on_time"].to_pylist() == (all_true if on_time is None else on_time.tolist())
        for axis in AXES:
            assert admitted[f"advances_{axis}"].to_pylist() == (moves[axis].tolist() if moves else all_true)


def test_each_reason_occurs(spark: Any) -> None:
    judge = admission_of((3, None), 5, False, (), promises_of([("k = 'b'", ", n < {v}", 6)], False))
    points, instants = [None, POINT_BOUND + 1, 2, 5, 7], [0, 6]
    [(_, table)] = in_both_forms(spark, points, instants, [judge])
    assert set(table["reason"].to_pylist()) == {*rule.REASONS, None}


def test_gathered_rows_are_judged_as_tagged_rows_are(spark: Any) -> None:
    judge = admission_of((3, None), 5, False, (), promises_of([("k = 'b'", ", n < {v}", 6)], True))
    df = rows_of(spark, [None, POINT_BOUND + 1, 2, 5, 7], [0, 6])
    tagged, gathered = (MicroBatch(df, STREAM, judge, carry_records) for carry_records in (True, False))
    by_spark, by_driver = (batch.gather(batch.gathered([])) for batch in (tagged, gathered))
    assert by_driver["__reason"].to_pylist() == by_spark["__reason"].to_pylist()
    is_punctuation = pc.equal(by_spark["__reason"], rule.PUNCTUATION)
    assert by_driver["__record"].drop_null().to_pylist() != []
    assert by_driver.filter(is_punctuation)["__record"] == by_spark.filter(is_punctuation)["__record"]
