"""One-time queries over finished tables: `answers('q')`, the latest answer of q, and `dead_letters('s')`; of a
continuous query its view, and `changes('q')`; and the tables that users change.

Spark SQL evaluates the SELECT over the tables that it names. All answers are read as of one commit. Of a table, only
columns that the SELECT names are read, and only window ends that its conditions allow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa
from sqlglot import exp

from windrow.cql.bounds.guards import check_bounds, guarded
from windrow.cql.dialect import CQL, window_of
from windrow.cql.functions import IN_FROM, OVER_TABLES, check_functions, check_names
from windrow.cql.select_text import expression_text
from windrow.cql.tokens import place_of
from windrow.dataplane.frames import columns_of, points_of, query_tables
from windrow.engine.ask.as_of import ShownResult
from windrow.engine.ask.kept_answers import WINDOW_END, AnsweredQuery, AnswerScan, Ends, KeptAnswers
from windrow.engine.ask.plan_tables import PlanTable, PlanTables
from windrow.engine.ask.window_bounds import EndBound, alias_of, end_bounds, renames
from windrow.engine.store.answers_kept import ListedAnswers
from windrow.engine.tables.manager import TableManager
from windrow.errors import BindError, FunctionError, ParseError, Place, QuerySuspendedError, UnsupportedError
from windrow.types import SqlType, point_text

ANSWERS, CHANGES, DEAD_LETTERS, FRESHNESS = "answers", "changes", "dead_letters", "freshness"
_EXAMPLES = {
    ANSWERS: ("query", "busiest"),
    CHANGES: ("continuous query", "joined"),
    DEAD_LETTERS: ("stream", "packets"),
}

_numbers = count()
"""Numbers of views: all state directories of a process may share a Spark session."""


@dataclass(frozen=True)
class FinishedTable:
    """A table of the SELECT: its node and place, its view, and its columns. `query` is the one whose answers it reads;
    None for `ready` rows: dead letters of a stream, or what a continuous query has (`plan`)."""

    node: exp.Table
    place: Place | None
    view: str
    name: str
    schema: pa.Schema
    query: AnsweredQuery | None = None
    is_latest: bool = False
    ready: Any = None
    plan: PlanTable | None = None
    is_table: bool = False
    """Whether it is a table that users change, or a stream."""

    @property
    def is_view(self) -> bool:
        """Whether it is the view of a continuous query."""
        return self.plan is not None and self.plan.point is not None

    @property
    def shown(self) -> ShownResult | None:
        """As of when the view of a query that runs as a plan is, or its latest answer."""
        return None if self.plan is None else self.plan.shown


TakenTables = Mapping[str, FinishedTable]
"""What the names in FROM stand for, by `key_of`."""


def key_of(node: exp.Table) -> str:
    """The key of a table of FROM in `TakenTables`: its name, or its call with the argument."""
    return node.this.sql().lower() if isinstance(node.this, exp.Anonymous) else node.name.lower()


def named_tables(tree: exp.Expr) -> list[exp.Table]:
    """The tables of a query, without references to its own WITH."""
    return [table for table in tree.find_all(exp.Table) if not _is_defined_above(table)]


def _is_defined_above(table: exp.Table) -> bool:
    """Whether a WITH around the table defines its name."""
    if not isinstance(table.this, exp.Identifier) or window_of(table) is not None:
        return False
    name = table.name.lower()
    node: exp.Expr = table
    while (holder := node.parent) is not None:
        within = holder.args.get("with_")
        if isinstance(holder, exp.With):
            visible = holder.expressions[: holder.expressions.index(node)]
        else:
            visible = within.expressions if within is not None and within is not node else []
        if any(one.alias.lower() == name for one in visible):
            return True
        node = holder
    return False


class FinishedTables:
    """Evaluates one-time queries. `spark` gives the session; `query` and `dead_letters` find what a name stands for, or
    raise CatalogError; `max_value_bytes` bounds the values that functions make; `plans` has the continuous queries,
    `tables` gives the tables."""

    def __init__(
        self,
        kept: KeptAnswers,
        spark: Callable[[], Any],
        query: Callable[[str, Place | None], AnsweredQuery],
        dead_letters: Callable[[str, Place | None], pa.Table],
        max_value_bytes: Callable[[], int],
        plans: PlanTables,
        tables: Callable[[], TableManager],
        freshness: Callable[[], pa.Table],
    ):
        self._tables = tables
        self._freshness = freshness
        self._plans = plans
        self._kept = kept
        self._spark = spark
        self._query = query
        self._dead_letters = dead_letters
        self._max_value_bytes = max_value_bytes

    def taken(self, select: exp.Expr, text: str) -> TakenTables:
        """What the names in FROM stand for, as of now: a name that comes twice has the same rows."""
        check_functions(select, text, OVER_TABLES)  # FROM may call what is no table
        found = dict[str, FinishedTable]()
        for node in named_tables(select):
            if key_of(node) not in found or window_of(node) is not None:
                found[key_of(node)] = self.named(node, text)
        return found

    def select(self, select: exp.Expr, text: str, taken: TakenTables) -> tuple[pa.Table, list[ShownResult]]:
        """The rows of the SELECT over tables that were taken, and as of when the latest answers are that it has read.
        All of one table is read without Spark."""
        tree, tables = self._bound(select, text, taken)
        sql, schemas = expression_text(tree), {table.view: table.schema for table in tables}

        def read(listed: Mapping[int, ListedAnswers]) -> tuple[dict[str, pa.Table], list[ShownResult]]:
            scans = self._scans(tables, listed, columns_named(select))
            kept = {view: self._kept.scan(scan, listed[scan.query.id]) for view, scan in scans.items()}
            latest = [scan.query for scan in scans.values() if scan.is_latest]
            shown = [ShownResult.of_answer(query.plan, listed[query.id].last_end) for query in latest]
            return {table.view: kept.get(table.view, table.ready).combine_chunks() for table in tables}, shown

        rows, shown = self._kept.consistent(_queries(tables), read)
        if is_whole_table(select):
            return rows[tables[0].view], shown
        try:
            return query_tables(self._spark(), sql, rows), shown
        except BindError:
            columns_of(self._spark(), sql, schemas)  # refuses it too, and proposes columns that were not read
            raise

    def content(self, table: FinishedTable) -> pa.Table:
        """All rows of a table."""
        if table.query is None:
            return table.ready
        return self._kept.table(AnswerScan(table.query, is_latest=table.is_latest))

    def views(self, select: exp.Expr) -> tuple[str, ...]:
        """The continuous queries whose views a SELECT reads."""
        named = (node.name for node in named_tables(select) if isinstance(node.this, exp.Identifier))
        return tuple(
            dict.fromkeys(name for name in named if self._tables().find(name) is None and self._plans.has(name))
        )

    def explain(self, select: exp.Expr, text: str, taken: TakenTables, where: str, why: str) -> str:
        """What would be read, and where and why there it is evaluated; Spark checks the SELECT, and no answer is
        read."""
        tree, tables = self._bound(select, text, taken)
        columns = columns_of(self._spark(), expression_text(tree), {table.view: table.schema for table in tables})
        listed = self._kept.listed(_queries(tables))
        scans = self._scans(tables, listed, columns_named(select))
        lines = [f"One-time query over finished tables, {where}: {', '.join(columns)}", f"  Why: {why}"]
        for table in tables:
            scan = scans.get(table.view)
            what = table.plan.what if table.plan is not None else f"dead letters of stream {table.name}"
            what = what if scan is None else _scan_text(scan, listed[scan.query.id])
            lines.append(f"  Read {alias_of(table.node)}: {what}")
        return "\n".join(lines)

    def _bound(self, select: exp.Expr, text: str, taken: TakenTables) -> tuple[exp.Expr, list[FinishedTable]]:
        """The SELECT over views, and the tables that the views stand for."""
        check_functions(select, text, OVER_TABLES)
        check_bounds(select, text, self._max_value_bytes())
        tree = select.copy()
        tables = [
            replace(taken[key_of(node)], node=node, place=place_of(node.this, text), view=view_name())
            for node in named_tables(tree)
        ]
        known = {name.lower() for table in tables for name in table.schema.names}
        known |= {name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns}
        check_names(tree, text, known)
        for table in tables:
            _name(table.node, table.view)
        return self._bounded(tree), tables

    def text_over(self, select: exp.Expr, text: str, views: Sequence[tuple[str, Sequence[str]]]) -> str:
        """The SELECT as Spark SQL over views: for each of its tables, in the order of `named_tables`, the name of a
        view and the columns of the table. Raises if it uses what one-time queries cannot use."""
        tree = select.copy()
        for node, (view, _) in zip(named_tables(tree), views, strict=True):
            plain = exp.Table(this=node.this.copy(), alias=node.args.get("alias"))
            _name(plain, view)
            node.replace(plain)
        check_functions(tree, text, OVER_TABLES)
        known = {name.lower() for _, names in views for name in names}
        known |= {name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns}
        check_names(tree, text, known)
        return expression_text(self._bounded(tree))

    def _bounded(self, tree: exp.Expr) -> exp.Expr:
        """The SELECT with guards around calls that may make large values. Columns keep their names."""
        most = self._max_value_bytes()
        for select in list(tree.find_all(exp.Select)):
            for item in select.expressions:
                if not isinstance(item, exp.Alias | exp.Star) and guarded(item, most).oversized is not None:
                    item.replace(exp.alias_(item.copy(), item.sql(dialect=CQL), quoted=True))
        return guarded(tree, most).tree

    def named(self, node: exp.Table, text: str) -> FinishedTable:
        """What a table of FROM stands for, as it is now; raises CatalogError if there is no such thing."""
        place, view, call = place_of(node.this, text), view_name(), node.this
        if window_of(node) is not None and not isinstance(call, exp.Anonymous):
            raise UnsupportedError(
                f"this SELECT reads tables and results of queries, and '{node.name}' has a window",
                place=place,
                remedy="Create a query with the window, CREATE QUERY q AS SELECT …, and read FROM q.",
            )
        if window_of(node) is not None:
            raise UnsupportedError(
                f"a window follows the name of a stream, not {call.name.lower()}(…)",
                place=place,
                remedy="Compare window_end in WHERE instead.",
            )
        if not isinstance(call, exp.Anonymous):
            table = self._tables().find(node.name)
            if table is not None:
                what = f"table {table.name} as of its change {table.version.seq}"
                made = _of_plan(node, place, view, table.name, PlanTable(table.rows, what))
                return replace(made, is_table=True)
            plan = self._plans.view(node.name, place)
            if plan is not None:
                return _of_plan(node, place, view, node.name, plan)
            query = self._query(node.name, place)
            return FinishedTable(node, place, view, node.name, query.schema, query, is_latest=True)
        of = call.name.lower()
        if of not in (*_EXAMPLES, FRESHNESS):
            raise FunctionError(
                f"'{call.name}' cannot stand in FROM: {IN_FROM}", place=place, remedy="SHOW STREAMS lists the streams."
            )
        if of == FRESHNESS:
            if call.expressions:
                raise ParseError("freshness takes nothing", place=place, remedy="Write FROM freshness().")
            rows = self._freshness()
            return _of_plan(node, place, view, of, PlanTable(rows, "how far streams and queries lag behind"))
        if len(call.expressions) != 1 or not call.expressions[0].is_string:
            what, example = _EXAMPLES[of]
            raise ParseError(
                f"{of} takes the name of a {what}, as text", place=place, remedy=f"Write FROM {of}('{example}')."
            )
        name = str(call.expressions[0].this)
        if of == DEAD_LETTERS:
            letters = self._dead_letters(name, place)
            return FinishedTable(node, place, view, name, letters.schema, ready=letters)
        plan = self._plans.changes(name, place) if of == CHANGES else self._plans.answers(name, place)
        if plan is not None:
            return _of_plan(node, place, view, name, plan)
        query = self._query(name, place)
        return FinishedTable(node, place, view, name, query.schema, query)

    def _scans(
        self,
        tables: Collection[FinishedTable],
        listed: Mapping[int, ListedAnswers],
        columns: Collection[str] | None,
    ) -> dict[str, AnswerScan]:
        """What to read of each table of answers, by view."""
        of_answers = [(table, table.query) for table in tables if table.query is not None]
        for table, query in of_answers:
            error = listed[query.id].error
            if table.is_latest and error is not None:
                raise QuerySuspendedError(
                    f"query '{query.name}' is suspended, and answers no more windows: {error}",
                    place=table.place,
                    remedy=f"FROM answers('{query.name}') shows its earlier answers. DROP it and create it again.",
                )
        ends = self._ends(of_answers, listed)
        return {
            table.view: AnswerScan(query, ends[table.view], table.is_latest, _columns(table, columns))
            for table, query in of_answers
        }

    def _ends(
        self, tables: Collection[tuple[FinishedTable, AnsweredQuery]], listed: Mapping[int, ListedAnswers]
    ) -> dict[str, Ends]:
        """The window ends that the SELECT can use of each table."""
        bounds: list[tuple[str, SqlType, EndBound]] = []
        for table, query in tables:
            beside = {
                alias_of(other.node): end
                for other, of in tables
                if other.is_latest and _select_of(other) is _select_of(table)
                if (end := _known_end(other, of, listed[of.id])) is not None
            }
            kind = query.plan.scan.attribute.type.bound
            bounds += [(table.view, kind, bound) for bound in end_bounds(table.node, beside)]
        ends = {table.view: Ends() for table, _ in tables}
        if bounds:
            points = points_of(self._spark(), [bound.constant for *_, bound in bounds], [kind for _, kind, _ in bounds])
            for (view, _, bound), point in zip(bounds, points, strict=True):
                ends[view] = ends[view].and_(bound.ends(point))
        return ends


def _name(node: exp.Table, view: str) -> None:
    """Let a table of FROM read a view, under the name that the user gave it."""
    alias = node.args.get("alias") or exp.TableAlias()
    alias.set("this", exp.to_identifier(node.alias or node.this.name, quoted=True))
    node.set("alias", alias)
    node.set("this", exp.to_identifier(view, quoted=True))


def view_name() -> str:
    """A name that no other view has."""
    return f"windrow_finished_{next(_numbers)}"


def _of_plan(node: exp.Table, place: Place | None, view: str, name: str, plan: PlanTable) -> FinishedTable:
    return FinishedTable(node, place, view, name, plan.rows.schema, ready=plan.rows, plan=plan)


def is_whole_table(select: exp.Expr) -> bool:
    """Whether it is `SELECT * FROM table` and nothing else."""
    named = {name for name, value in select.args.items() if value}
    if not isinstance(select, exp.Select) or named != {"expressions", "from_"} or len(select.expressions) != 1:
        return False
    star, table = select.expressions[0], select.args["from_"].this
    plain = isinstance(star, exp.Star) and not any(star.args.values())
    return plain and isinstance(table, exp.Table) and not renames(table)


def _queries(tables: Collection[FinishedTable]) -> list[AnsweredQuery]:
    return list({table.query.id: table.query for table in tables if table.query is not None}.values())


def _select_of(table: FinishedTable) -> exp.Expr | None:
    return table.node.find_ancestor(exp.Select)


def _known_end(table: FinishedTable, query: AnsweredQuery, listed: ListedAnswers) -> exp.Expr | None:
    """The one window end of a latest answer, as an expression; None if it has several."""
    if listed.last_end is None or query.is_partitioned or renames(table.node):
        return None
    number = exp.Literal.number(listed.last_end)
    if not query.is_time:
        return exp.cast(number, exp.DType.BIGINT)
    moment = exp.Anonymous(this="TIMESTAMP_MICROS", expressions=[number])
    is_moment = query.plan.scan.attribute.type.name == "TIMESTAMP"
    return moment if is_moment else exp.cast(moment, exp.DType.TIMESTAMPNTZ)


def columns_named(select: exp.Expr) -> frozenset[str] | None:
    """All names in the SELECT, in lower case; None if it may need columns that it does not name (*, NATURAL JOIN)."""
    stars = [star for star in select.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    if stars or any(join.method == "NATURAL" for join in select.find_all(exp.Join)):
        return None
    return frozenset(name.name.lower() for name in select.find_all(exp.Identifier))


def _columns(table: FinishedTable, named: Collection[str] | None) -> tuple[str, ...] | None:
    if named is None or renames(table.node):
        return None
    return tuple(name for name in table.schema.names if name.lower() in named) or (WINDOW_END,)


def _scan_text(scan: AnswerScan, listed: ListedAnswers) -> str:
    """What is read, in words."""
    kind, query, ends = scan.query.plan.scan.attribute.type, scan.query, scan.ends
    rows = f"{listed.rows:,} rows retained"
    columns = f"columns {', '.join(scan.columns)}" if scan.columns is not None else "all columns"
    if scan.is_latest:
        end = "no window answered yet" if listed.last_end is None else f"window_end {point_text(listed.last_end, kind)}"
        return f"the latest answer of query {query.name}, {end}; {columns}"
    shown = [
        f"window_end {sign} {point_text(point, kind)}"
        for sign, point in ((">=", ends.low), ("<=", ends.high))
        if point is not None
    ]
    if ends.low is not None and ends.low == ends.high:
        shown = [f"window_end = {point_text(ends.low, kind)}"]
    return f"answers of query {query.name}{' with ' if shown else ''}{' and '.join(shown)}; {columns}; {rows}"
