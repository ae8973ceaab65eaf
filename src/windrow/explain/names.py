"""Plan columns and expressions under the names that the user reads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from sqlglot import exp

from windrow.cql.dialect import CQL
from windrow.plan.algebra.nodes import (
    Computed,
    Join,
    Node,
    NrrJoin,
    OuterJoin,
    PlanColumn,
    Project,
    RowsWindow,
    SemiJoin,
    StreamWindow,
    TableScan,
    Window,
    walk,
)

_QUOTED = re.compile(r"`(\w+)`")
_LIFTED = re.compile(r"__c\d+")
"""The names that sub-queries of EXISTS give the columns that the query around compares."""


class ColumnNames:
    """The names of a plan's columns. One that several inputs of a join have gets the stream before it: `a.k`.

    The windows of a stream that is read more than once go by the user's aliases. Those that have none, or the same,
    are numbered from left to right: `a#1.k`, `a#2.k`. Columns that the user has not named go by their expressions.
    """

    def __init__(self, root: Node):
        windows = [node for node in walk(root) if isinstance(node, Window)]
        read = Counter(window.stream.lower() for window in windows)
        called = [window.called if read[window.stream.lower()] > 1 else window.stream for window in windows]
        counted = Counter(name.lower() for name in called)
        seen = Counter[str]()
        self._streams: dict[int, str] = {}
        for window, known in zip(windows, called, strict=True):
            name = known.lower()
            seen[name] += 1
            self._streams[id(window)] = known + (f"#{seen[name]}" if counted[name] > 1 else "")
        self._plain = _plain_names(root)
        self._names = dict(self._plain)
        for node in walk(root):
            if isinstance(node, Join | SemiJoin | OuterJoin | NrrJoin):
                self._qualify(node)

    def _qualify(self, join: Join | SemiJoin | OuterJoin | NrrJoin) -> None:
        found = Counter(name for one in join.inputs for name in {self._key(column) for column in one.schema})
        for one in join.inputs:
            for column in one.schema:
                plain = self._plain[column.sql]
                is_name = plain.isidentifier() or plain == plain_sql(column.name)
                if is_name and found[self._key(column)] > 1 and self._names[column.sql] == plain:
                    self._names[column.sql] = f"{self.source(one)}.{plain}"

    def _key(self, column: PlanColumn) -> str:
        return self._plain[column.sql].lower()

    def stream(self, window: Window) -> str:
        """The stream of a window, numbered if the plan has several windows over it."""
        return self._streams[id(window)]

    def source(self, node: Node) -> str:
        """The streams and tables that a node reads: `a`, or `(a, b)`."""
        found = [one for one in walk(node) if isinstance(one, Window | TableScan)]
        streams = [one.table if isinstance(one, TableScan) else self.stream(one) for one in found]
        return streams[0] if len(streams) == 1 else f"({', '.join(streams)})"

    def column(self, column: PlanColumn) -> str:
        return self._names[column.sql]

    def columns(self, columns: Sequence[PlanColumn]) -> str:
        return ", ".join(map(self.column, columns))

    def expression(self, expression: exp.Expr) -> str:
        """An expression over plan columns as the user would write it."""
        return with_names(expression, self._names)

    def computed(self, one: Computed) -> str:
        """An item of a select list; without AS if the column keeps its name."""
        text, name = self.expression(one.expression), self._plain[one.column.sql]
        return text if text == name or text.endswith(f".{name}") else f"{text} AS {name}"


def _plain_names(root: Node) -> dict[str, str]:
    """The columns' names without their streams."""
    names = dict[str, str]()
    for node in walk(root):
        names |= {column.sql: plain_sql(column.name) for column in node.schema if column.sql not in names}
        for one in node.columns if isinstance(node, Project | StreamWindow | RowsWindow) else ():
            if _LIFTED.fullmatch(one.column.name):
                text = with_names(one.expression, names) if isinstance(one, Computed) else plain_sql(one.sql)
                names[one.column.sql] = text
    return names


def with_names(expression: exp.Expr, names: Mapping[str, str]) -> str:
    """The text of an expression with other names for its columns."""

    def named(node: exp.Expr) -> exp.Expr:
        known = names.get(node.name) if isinstance(node, exp.Column) else None
        return node if known is None else exp.Var(this=known)

    return plain_sql(expression.copy().transform(named).sql(dialect=CQL))


def plain_sql(text: str) -> str:
    """SQL without the quotes that its names can do without."""
    return _QUOTED.sub(r"\1", text)
