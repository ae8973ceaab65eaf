"""Tables that streams feed, by definition: at a point, a table has the last tuple of each key at or below it, by
(point, order of arrival), unless that tuple says that the key is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from windrow.cql.statements import CreateStream, CreateTable
from windrow.oracle.admission import OracleDeadLetter, Reason, Row, column_named, types_of
from windrow.oracle.continuous.due import INFINITE
from windrow.oracle.continuous.plan import StandingPlan
from windrow.oracle.continuous.tables import EffectiveVersion
from windrow.types import SqlType, point_of

_VIEW = "windrow_oracle_changelog"


@dataclass(frozen=True)
class Fed:
    """The versions of a table, each from its point on, and the tuples that it could not take, each with its point."""

    versions: list[tuple[int, pa.Table]] = field(default_factory=list)
    refused: list[tuple[int, OracleDeadLetter]] = field(default_factory=list)

    def effective(self, plan: StandingPlan, empty: pa.Table, is_exact: bool) -> list[EffectiveVersion]:
        """The versions and their points; `is_exact`: a tuple sees the version as of its own point."""
        starts = [point + (plan.step if is_exact else 1) for point, _ in self.versions]
        found = [(-INFINITE, empty), *zip(starts, (rows for _, rows in self.versions), strict=True)]
        ends = [start for start, _ in found[1:]] + [INFINITE]
        return [
            EffectiveVersion(rows, start, end, not is_exact)
            for (start, rows), end in zip(found, ends, strict=True)
            if start < end
        ]


def fed(spark: Any, table: CreateTable, stream: CreateStream, rows: Sequence[Row], since: int | None) -> Fed:
    """What tuples of the stream, in the order of arrival, make of the table; those below `since` do not count."""
    assert stream.timestamp_by is not None
    axis = column_named(stream, stream.timestamp_by)
    names = [column_named(stream, one.name) for one in table.columns]
    keys = [column_named(stream, name) for name in table.key]
    schema = pa.schema([(one.name, SqlType(one.type).arrow) for one in table.columns])
    log = [
        (point_of(row[axis], types_of(stream)[axis]), row, deletes)
        for row, deletes in zip(rows, _deletes(spark, table, stream, rows), strict=True)
    ]
    there: dict[tuple[Any, ...], Row] = {}
    gone: set[tuple[Any, ...]] = set()
    found = Fed()
    for point, row, deletes in sorted(log, key=lambda one: one[0]):
        if since is not None and point < since:
            continue
        key = tuple(row[name] for name in keys)
        if any(value is None for value in key):
            found.refused.append((point, OracleDeadLetter(Reason.NULL_KEY, row)))
        elif deletes:
            if there.pop(key, None) is not None and not table.retroactive:
                gone.add(key)
        elif key in gone:
            found.refused.append((point, OracleDeadLetter(Reason.DELETED_KEY, row)))
        else:
            there[key] = row
        held = list(there.values())
        columns = [pa.array([one[name] for one in held], kind.type) for name, kind in zip(names, schema, strict=True)]
        if found.versions and found.versions[-1][0] == point:
            found.versions.pop()
        found.versions.append((point, pa.Table.from_arrays(columns, schema=schema)))
    return found


def _deletes(spark: Any, table: CreateTable, stream: CreateStream, rows: Sequence[Row]) -> list[bool]:
    """Which tuples say that their key is gone."""
    if table.delete_when is None or not rows:
        return [False] * len(rows)
    columns = {name: pa.array([row[name] for row in rows], kind.arrow) for name, kind in types_of(stream).items()}
    numbered = pa.table({**columns, "__n": pa.array(range(len(rows)), pa.int64())})
    spark.createDataFrame(numbered).createOrReplaceTempView(_VIEW)
    where = table.delete_when.sql(dialect="spark")
    found = {row["__n"] for row in spark.sql(f"SELECT __n FROM {_VIEW} WHERE {where}").collect()}
    return [number in found for number in range(len(rows))]
