"""Finishes answers: the select list, HAVING, ORDER BY and LIMIT of all due windows at once, as Arrow tables.

A plain select list only picks columns. Anything else is one DuckDB statement in the driver over all windows of a tick
batch, never a Spark job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.cql.bounds.guards import guarded
from windrow.cql.final.sql import ordered_by, to_duckdb
from windrow.dataplane.answers.one_window import ordered_rows, plain_column
from windrow.operators.tables.kernel import naive, typed
from windrow.plan.nodes import Finalise, Output, internal_columns
from windrow.synopses import LookupAnswer
from windrow.synopses.cells.groups import Groups
from windrow.synopses.having.bound_tests import BoundTest, bound_tests
from windrow.synopses.holistic.roll_up import AnswerRows, rows_of
from windrow.synopses.lookups import TaskRows
from windrow.synopses.results.values import overflows
from windrow.types import SqlType
from windrow.windows import Points

ROW = "r"
"""The column with the index of the looked-up row that an answer row comes from."""

OVERSIZED = "oversized"
"""The column that counts the values of a row that are NULL by the bound on values; only if there can be some."""

Edges = tuple[Points | None, Points]
"""The window_start (None: the windows have none) and the window_end of each window."""

WINDOW_COLUMNS = ("window_start", "window_end", "is_revision")


MOST_TEXTS = 1 << 15
"""The most plans whose statements are cached."""


@dataclass(frozen=True)
class Finished:
    """Answer rows, the index of each row's window (ascending), and the number of windows answered.

    `overflows` counts the values that are NULL because they do not fit their type.
    """

    table: pa.Table
    window: Points
    windows: int
    overflows: int = 0


class TaskError(Exception):
    """An expression of a query failed in a task."""


class Finisher:
    """Turns looked-up states into answer rows. It holds one DuckDB connection. `max_value_bytes` bounds the values that
    functions make."""

    def __init__(self, max_value_bytes: Callable[[], int]) -> None:
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": 1,
            "memory_limit": "512MB",
            "enable_external_access": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self._duckdb = duckdb.connect(":memory:", config=config)
        self._max_value_bytes = max_value_bytes
        self._bound: int | None = None
        self._lock = threading.Lock()
        self._texts: dict[tuple[int, Callable[[Finalise], str]], tuple[Finalise, str]] = {}
        self._tests: dict[int, tuple[Finalise, tuple[BoundTest, ...], Finalise]] = {}

    def close(self) -> None:
        with self._lock:
            self._duckdb.close()
            del self._duckdb

    def forget(self, plan: Finalise) -> None:
        """Drop the cached statements of a plan that is not needed again."""
        with self._lock:
            known = self._tests.pop(id(plan), None)
            for one in (plan,) if known is None else (plan, known[2]):
                for sql in (finish_sql, finish_one_sql, part_sql, joined_sql):
                    self._texts.pop((id(one), sql), None)

    def finish(
        self, plan: Finalise, looked: LookupAnswer, starts: Points | None, ends: Points, groups: Groups
    ) -> Finished:
        """The answers of one query: window_start, window_end, is_revision, then the select list."""
        if looked.by_tasks is not None:
            return self._of_tasks(plan, looked.by_tasks, (starts, ends), looked.windows)
        unfit = _unfit(plan, looked)
        looked, plan = self._tested(plan, looked)
        rows = rows_of(plan.input, looked, groups)
        columns = _columns(plan, rows, groups)
        window, each, oversized = rows.window, rows.each, 0
        order = ordered_rows(plan, columns) if looked.windows == 1 and not plan.is_plain else None
        if plan.is_plain:
            outputs = [columns[o.expression.name] for o in plan.outputs]
        elif order is not None:
            each, window = None, np.zeros(len(order), np.int64)
            # Decoded, like the result of a statement: tables of one query are concatenated.
            outputs = [plain_column(columns[o.expression.name].take(order)) for o in plan.outputs]
        else:
            each = None
            sql = finish_sql if looked.windows > 1 else finish_one_sql
            done = self._evaluate(plan, sql, _looked(window, columns))
            oversized = _oversized(done)
            window, outputs = _evaluated(plan, done)
        found = _finished(plan, window, each, outputs, (starts, ends), looked.windows)
        unfit = rows.overflows(plan.input.aggregates) if unfit is None else unfit
        return replace(found, overflows=unfit + oversized)

    def _of_tasks(self, plan: Finalise, found: TaskRows, edges: Edges, windows: int) -> Finished:
        if found.error is not None:
            raise TaskError(found.error)
        return replace(self.joined(plan, found.tables, edges, windows), overflows=found.overflows)

    def _tested(self, plan: Finalise, looked: LookupAnswer) -> tuple[LookupAnswer, Finalise]:
        """The rows that satisfy HAVING's bounds on integers, and the plan without these bounds."""
        if plan.having is None:
            return looked, plan
        cached = self._tests.get(id(plan))
        if cached is None or cached[0] is not plan:
            if len(self._tests) >= MOST_TEXTS:
                self._tests.clear()
            cached = self._tests[id(plan)] = (plan, *bound_tests(plan))
        _, tests, rest = cached
        if not tests:
            return looked, plan
        wanted = tests[0].holds(looked.states)
        for test in tests[1:]:
            wanted &= test.holds(looked.states)
        return looked.where(wanted), rest

    def part(self, plan: Finalise, looked: LookupAnswer, groups: Groups) -> tuple[pa.Table, int]:
        """The answer rows of some of the groups (w, o0…, and the sort columns s0…), and the number of overflows.

        HAVING is applied, and LIMIT too: a row beyond it here is beyond it overall.
        """
        unfit = _unfit(plan, looked)
        looked, plan = self._tested(plan, looked)
        rows = rows_of(plan.input, looked, groups)
        columns = _columns(plan, rows, groups)
        unfit = rows.overflows(plan.input.aggregates) if unfit is None else unfit
        if not plan.is_plain:
            done = self._evaluate(plan, part_sql, _looked(rows.window, columns))
            unfit += _oversized(done)
            return done.drop_columns([OVERSIZED] if OVERSIZED in done.column_names else []), unfit
        outputs = {f"o{i}": columns[o.expression.name] for i, o in enumerate(plan.outputs)}
        return plain(pa.table({"w": rows.window, **outputs})), unfit

    def joined(self, plan: Finalise, parts: Sequence[pa.Table], edges: Edges, windows: int) -> Finished:
        """The answers of one query from the parts of disjoint sets of groups."""
        if not parts:
            return _finished(
                plan, np.empty(0, np.int64), None, [pa.array([], o.type.arrow) for o in plan.outputs], edges, windows
            )
        table = pa.concat_tables(parts, promote_options="permissive")
        if plan.order or plan.limit is not None:
            table = self._evaluate(plan, joined_sql, table)
        elif windows > 1:
            table = table.take(pa.array(np.argsort(table.column("w").to_numpy(), kind="stable")))
        window, outputs = _evaluated(plan, table)
        return _finished(plan, window, None, outputs, edges, windows)

    def _evaluate(self, plan: Finalise, sql: Callable[[Finalise], str], table: pa.Table) -> pa.Table:
        """Run a statement over the table `looked`. Arrays and structs bypass DuckDB and are taken by row afterwards."""
        flat = [name for name in table.column_names if not pa.types.is_nested(table.schema.field(name).type)]
        numbered = table.select(flat).append_column(ROW, pa.array(np.arange(table.num_rows)))
        with self._lock:
            cached = self._texts.get((id(plan), sql))
            if cached is None or cached[0] is not plan:
                if len(self._texts) >= MOST_TEXTS:
                    self._texts.clear()
                cached = self._texts[id(plan), sql] = (plan, sql(plan))
            if self._bound != (bound := self._max_value_bytes()):
                self._duckdb.execute(f"SET VARIABLE max_value_bytes = {bound}")
                self._bound = bound
            self._duckdb.register("looked", numbered)
            try:
                done = self._duckdb.sql(cached[1]).to_arrow_table()
            finally:
                self._duckdb.unregister("looked")
        row, names = done.column(ROW), set(table.column_names)
        for i, o in enumerate(plan.outputs):
            if o.type.is_nested:
                name = f"o{i}" if f"o{i}" in names else o.expression.unnest().name
                done = done.append_column(f"o{i}", table.column(name).take(row))
        return done.drop_columns([ROW])


def _unfit(plan: Finalise, looked: LookupAnswer) -> int | None:
    """The number of sums that do not fit their type, including those of groups that HAVING removes. None: known only
    after rolling up."""
    if plan.input.is_holistic:
        return None
    return sum(overflows(call, looked.states) for call in plan.input.aggregates)


def _columns(plan: Finalise, rows: AnswerRows, groups: Groups) -> dict[str, pa.Array]:
    """The columns k0… and a0… of the rows."""
    keys = groups.key_columns(rows.cells, len(plan.input.keys))
    columns = {f"k{i}": key for i, key in enumerate(keys)}
    return columns | {f"a{i}": rows.result(call) for i, call in enumerate(plan.input.aggregates)}


def _looked(window: Points, columns: dict[str, pa.Array]) -> pa.Table:
    return pa.table({"w": window, **{name: naive(column) for name, column in columns.items()}})


def _evaluated(plan: Finalise, done: pa.Table) -> tuple[Points, list[pa.Array]]:
    outputs = [typed(done.column(f"o{i}").combine_chunks(), o.type) for i, o in enumerate(plan.outputs)]
    return np.asarray(done.column("w").combine_chunks().to_numpy(zero_copy_only=False)), outputs


def _finished(
    plan: Finalise, window: Points, each: int | None, outputs: list[pa.Array], shown: Edges, windows: int
) -> Finished:
    kind = plan.scan.attribute.type
    edges = [pa.nulls(window.size, kind.bound.arrow) if e is None else _points(e, window, each, kind) for e in shown]
    names = [*WINDOW_COLUMNS, *(o.name for o in plan.outputs)]
    return Finished(pa.Table.from_arrays([*edges, _falses(window.size), *outputs], names), window, windows)


def finish_sql(plan: Finalise) -> str:
    """The DuckDB statement over table `looked` (w, k0…, a0…) that returns w, o0… in order."""
    return _ordered_sql(plan, _inner_sql(plan))


def finish_one_sql(plan: Finalise) -> str:
    """`finish_sql` for a single window: it need not number all rows, which takes half the time."""
    if plan.limit is None:
        return finish_sql(plan)
    return f"SELECT * FROM ({_inner_sql(plan)}) ORDER BY {_by(plan)} LIMIT {plan.limit}"


def part_sql(plan: Finalise) -> str:
    """`finish_sql` for some of the groups: with s0…, and without order."""
    inner = _inner_sql(plan)
    return inner if plan.limit is None else f"SELECT * EXCLUDE (place) FROM ({_first_sql(plan, inner)})"


def joined_sql(plan: Finalise) -> str:
    """The statement that orders the parts of all groups as `finish_sql` does."""
    return _ordered_sql(plan, "SELECT * FROM looked")


def _inner_sql(plan: Finalise) -> str:
    types = dict(internal_columns(plan.input))
    flat = [(i, guarded(o.expression, None)) for i, o in _flat(plan)]
    outputs = [ROW, *(f"{to_duckdb(g.tree, types)} AS o{i}" for i, g in flat), *_keys_for_ties(plan)]
    counts = [to_duckdb(g.oversized, types) for _, g in flat if g.oversized is not None]
    outputs += [f"{' + '.join(counts)} AS {OVERSIZED}"] if counts else []
    where = f" WHERE {to_duckdb(guarded(plan.having, None).tree, types)}" if plan.having is not None else ""
    sort_columns = [f"{to_duckdb(guarded(o.expression, None).tree, types)} AS s{i}" for i, o in enumerate(plan.order)]
    return f"SELECT w, {', '.join(outputs + sort_columns)} FROM looked{where}"


def _oversized(done: pa.Table) -> int:
    """How many values of the rows are NULL by the bound on values."""
    return int(pc.sum(done.column(OVERSIZED)).as_py() or 0) if OVERSIZED in done.column_names else 0


def _by(plan: Finalise) -> str:
    sorts = [ordered_by(f"s{i}", o.descending, o.nulls_first) for i, o in enumerate(plan.order)]
    # Ties are broken by all remaining columns, so that answers are deterministic.
    ties = [f"o{i}" for i, _ in _flat(plan)] + _keys_for_ties(plan)
    return ", ".join(sorts + [f"{name} ASC NULLS FIRST" for name in ties]) or "w"


def _flat(plan: Finalise) -> list[tuple[int, Output]]:
    return [(i, o) for i, o in enumerate(plan.outputs) if not o.type.is_nested]


def _keys_for_ties(plan: Finalise) -> list[str]:
    """Arrays and structs have no order. If there are some, ties go by the keys as well."""
    return [f"k{i}" for i in range(len(plan.input.keys)) if len(_flat(plan)) < len(plan.outputs)]


def _first_sql(plan: Finalise, inner: str) -> str:
    numbered = f"SELECT *, row_number() OVER (PARTITION BY w ORDER BY {_by(plan)}) AS place FROM ({inner})"
    return f"SELECT * FROM ({numbered}) WHERE place <= {plan.limit}"


def _ordered_sql(plan: Finalise, inner: str) -> str:
    if plan.limit is not None:
        return f"SELECT * FROM ({_first_sql(plan, inner)}) ORDER BY w, place"
    return f"SELECT * FROM ({inner}) ORDER BY w{', ' + _by(plan) if plan.order else ''}"


def answer_schema(outputs: Sequence[Output], kind: SqlType) -> pa.Schema:
    """The columns of a query's answers, with plain strings."""
    bound = kind.bound.arrow
    head = [pa.field("window_start", bound), pa.field("window_end", bound), pa.field("is_revision", pa.bool_())]
    return pa.schema(head + [pa.field(o.name, o.type.arrow) for o in outputs])


def plain(table: pa.Table, schema: pa.Schema | None = None) -> pa.Table:
    """The table with dictionary-encoded columns decoded; with a schema, cast to it."""
    if schema is None:
        types = [c.type.value_type if pa.types.is_dictionary(c.type) else c.type for c in table.columns]
        schema = pa.schema(zip(table.column_names, types, strict=True))
    columns = [c if c.type == kind else c.cast(kind) for c, kind in zip(table.columns, schema.types, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _points(edges: Points, window: Points, each: int | None, kind: SqlType) -> pa.Array:
    """The edge of each row's window. `each` is the number of rows per window if all have the same."""
    column = pa.array(edges[window] if each is None else np.repeat(edges, each))
    return column.view(kind.arrow) if kind.is_timestamp else column


def _falses(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bytes((count + 7) // 8))])
