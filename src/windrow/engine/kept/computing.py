"""Columns that a window store does not keep yet, computed from columns that it keeps: a new condition or expression of
a query is then known of earlier tuples, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from windrow.cql.select_text import parse_expression
from windrow.dataplane.stores import KeptColumn
from windrow.engine.kept.store_entries import Since
from windrow.errors import WindrowError
from windrow.operators.tables.kernel import Kernel
from windrow.plan.algebra.nodes import columns_in


@dataclass(frozen=True)
class ComputedColumns:
    """Columns that can be computed: the tree of each over plain columns of the stream, which are kept. `since`: from
    which point on all of these are there (None: always)."""

    trees: Mapping[KeptColumn, exp.Expr]
    plain: Mapping[str, KeptColumn]
    since: int | None

    def added_to(self, rows: pa.Table, kernel: Kernel) -> pa.Table:
        """Stored rows with these columns; those that they have under these names are replaced."""
        types = {name: one.type for name, one in self.plain.items()}
        values = pa.table({name: rows.column(one.id) for name, one in self.plain.items()})
        for column, found in zip(self.trees, kernel.evaluate(list(self.trees.values()), types, values), strict=True):
            made = found if found.type == column.type.arrow else found.cast(column.type.arrow)
            if column.id in rows.column_names:
                rows = rows.drop_columns([column.id])
            rows = rows.append_column(column.id, made)
        return rows


def computable(kept: Since, wanted: Iterable[KeptColumn], kernel: Kernel) -> ComputedColumns | None:
    """How to compute the wanted columns that are not kept; None if there are none, or one cannot be computed."""
    plain = {tree.name: one for one in kept if isinstance(tree := _tree(one), exp.Column)}
    trees = {one: tree for one in wanted if one not in kept and (tree := _tree(one)) is not None}
    read = {name for tree in trees.values() for name in columns_in(tree)}
    if not trees or not read or not read <= set(plain) or any(one not in kept and one not in trees for one in wanted):
        return None
    types = {name: plain[name].type for name in read}
    try:
        for tree in trees.values():
            kernel.final(tree, types)
    except WindrowError:
        return None
    points = [point for name in read if (point := kept[plain[name]]) is not None]
    return ComputedColumns(trees, {name: plain[name] for name in sorted(read)}, max(points, default=None))


def _tree(column: KeptColumn) -> exp.Expr | None:
    try:
        return parse_expression(column.sql)
    except WindrowError:
        return None
