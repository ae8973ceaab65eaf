"""Counts, in the job of a micro-batch, the values of each query that are NULL by the bound `max_value_bytes`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windrow.cql.bounds.guards import bounded_sql, oversized_sql
from windrow.engine.state import QueryState
from windrow.plan.nodes import RANK_COLUMN, WindowAggregate


@dataclass(frozen=True)
class OversizedColumn:
    """How many values of a row are NULL by the bound, for each of these queries."""

    sql: str
    queries: tuple[int, ...]


class OversizedCounts:
    """Knows what to count for a query. Almost all queries have nothing that can grow, and cost a look into a dict."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, str | None]] = {}

    def columns(self, queries: Iterable[QueryState], most: int) -> tuple[OversizedColumn, ...]:
        """One column for all queries that count the same."""
        found: dict[str, list[int]] = {}
        for query in queries:
            known = self._known.get(query.id)
            if known is None or known[0] != most:
                known = self._known[query.id] = most, _counted_sql(query.plan.input, most)
            if known[1] is not None:
                found.setdefault(known[1], []).append(query.id)
        return tuple(OversizedColumn(sql, tuple(ids)) for sql, ids in found.items())


def _counted_sql(aggregate: WindowAggregate, most: int) -> str | None:
    """Keys, arguments and FILTERs count in rows that pass WHERE."""
    where = aggregate.input.predicate
    arguments = [a.arg for a in aggregate.accumulators if a.arg is not None and a.arg != RANK_COLUMN]
    filters = [a.condition for a in aggregate.accumulators if a.condition not in (None, where) and a.every_n is None]
    own = [sql if where is None else sql.removeprefix(f"({where}) AND ") for sql in filters if sql is not None]
    values = dict.fromkeys([key.sql for key in aggregate.cell_keys] + arguments + own)
    counts = [count for sql in values if (count := oversized_sql(sql, most)) is not None]
    in_values = " + ".join(counts)
    if where is None:
        return in_values or None
    passing = f"IF(coalesce({bounded_sql(where, most)}, false), {in_values}, 0L)" if counts else None
    return " + ".join(count for count in (oversized_sql(where, most), passing) if count is not None) or None


def counts_by_query(columns: Sequence[OversizedColumn], counts: Sequence[int]) -> dict[int, int]:
    """By query, what the columns counted; without those that counted nothing."""
    found = zip(columns, counts, strict=False)  # a micro-batch without admitted rows has no counts
    return {query: count for column, count in found if count for query in column.queries}
