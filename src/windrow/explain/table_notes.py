"""How a plan reads a table: from memory, if it is small, or from bucketed blocks; and why."""

from __future__ import annotations

from windrow.engine.tables.uses import TableUse
from windrow.explain.tree import bytes_text
from windrow.operators.relations.nrr_join import own_name
from windrow.operators.scan import table_of
from windrow.operators.stages.cutting import node_at, staged
from windrow.plan.algebra.nodes import ContinuousPlan, Node, NrrJoin, TableScan


def table_note(plan: ContinuousPlan, use: TableUse) -> str:
    """What a plan does to read a table."""
    table = use.table
    size = bytes_text(table.version.rows.row_bytes)
    if not table.base.is_bucketed:
        return f"broadcast: {size}, which every task holds; more than broadcast_table_bytes would be in bucketed blocks"
    found = f"bucketed blocks: {size}, more than broadcast_table_bytes"
    key = ", ".join(table.definition.key)
    if use.is_whole:
        if _is_looked_up(plan.root, use):
            return f"{found}; rows are found by {key} in the mapped file"
        return f"{found}; the join is not on all of the key ({key}), so every task reads all of it at every tick"
    scan, names = node_at(plan.root, use.path), staged(plan).scans[use.path]
    assert isinstance(scan, TableScan) and names is not None
    own = {one.column.sql: one.name for one in scan.columns}
    by = tuple(own[name] for name in names)
    if by == table.definition.key:
        return f"{found}; at first a task reads its buckets, by {key}, and then changes"
    shared = f"shared by {', '.join(by)}" if by else "in one task"
    return (
        f"{found}; its rows are {shared}, not by the key ({key}), so at first a task reads all of it, and then changes"
    )


def _is_looked_up(root: Node, use: TableUse) -> bool:
    """Whether the join with a table that is NON RETROACTIVE is on all of its key."""
    node, found = root, None
    for i in use.path.split(".")[1:]:
        found = node if isinstance(node, NrrJoin) else found
        node = node.inputs[int(i)]
    assert found is not None and table_of(found.table) is not None
    names = {own_name(found.table, key[1]) for key in found.keys}
    return names.issuperset(use.table.definition.key)
