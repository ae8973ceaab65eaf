"""Which sub-plans of a plan are also in another, and how the columns of their state are called in either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from windrow.operators.grouping.calls import calls_of
from windrow.operators.negation.rows_window import Counting
from windrow.operators.state import ROOT, has_internal
from windrow.optimizer.common_subplan import subplan_key
from windrow.plan.algebra.nodes import ContinuousPlan, GroupBy, Node, TableScan, ToStream, Window, walk


@dataclass(frozen=True)
class SameSubPlan:
    """A sub-plan of the old plan, at the path `old`, that the new plan has at the path `new`. `names`: what the columns
    of its edges and of its state are called there."""

    node: Node
    old: str
    new: str
    names: Mapping[str, str]

    def renamed(self, rows: pa.Table) -> pa.Table:
        """Rows of an edge or of the state under the names of the new plan."""
        return rows.rename_columns([self.names.get(name, name) for name in rows.column_names])

    @property
    def keeps_names(self) -> bool:
        return all(old == new for old, new in self.names.items())

    def within(self, path: str) -> str | None:
        """Where the new plan has the state at a path of the old one; None if it is not the sub-plan's. The rows that a
        join above keeps of it are the join's."""
        rest = path[len(self.old) :] if path.startswith(self.old) else "?"
        is_own = rest == "" or rest[0] == "." or (rest[0] == "/" and rest != "/old")
        return self.new + rest if is_own else None


def same_subplans(old: ContinuousPlan, new: ContinuousPlan, tables_changed: bool = False) -> dict[str, SameSubPlan]:
    """By path in the new plan, its sub-plans that the old plan has, too.

    There are none if the plans tick differently. State under INTERNAL windows has columns that depend on the whole
    plan, and below RESTORE it is of instants, so the whole plan is the same then, or nothing is. `tables_changed`:
    tables have changed since the last tick, so sub-plans over them have to begin anew.
    """
    if not _tick_alike(old, new):
        return {}
    known = dict[str, tuple[str, Node]]()
    for path, node in nodes_by_path(old.root):
        known.setdefault(subplan_key(node), (path, node))
    found = dict[str, SameSubPlan]()
    for path, node in nodes_by_path(new.root):
        match = known.get(subplan_key(node))
        if match is None or (tables_changed and any(isinstance(one, TableScan) for one in walk(node))):
            continue
        found[path] = SameSubPlan(match[1], match[0], path, _names(match[1], node))
    if _is_of_one_piece(old) or _is_of_one_piece(new):
        root = found.get(ROOT)
        return {} if root is None or root.old != ROOT else {ROOT: root}
    return found


def resized_windows(old: ContinuousPlan, new: ContinuousPlan) -> dict[str, SameSubPlan]:
    """By path in the new plan, its count-based windows that the old plan has with another number of rows: of several
    the one with the most."""
    if not _tick_alike(old, new) or _is_of_one_piece(old) or _is_of_one_piece(new):
        return {}
    known, found = dict[str, tuple[str, Counting]](), dict[str, SameSubPlan]()
    for path, node in nodes_by_path(old.root):
        if isinstance(node, Counting):
            key = subplan_key(replace(node, size=1))
            if key not in known or known[key][1].size < node.size:
                known[key] = path, node
    for path, node in nodes_by_path(new.root):
        match = known.get(subplan_key(replace(node, size=1))) if isinstance(node, Counting) else None
        if match is not None:
            found[path] = SameSubPlan(match[1], match[0], path, _names(match[1], node))
    return found


def _tick_alike(old: ContinuousPlan, new: ContinuousPlan) -> bool:
    return (old.step, old.origin, old.point, old.periodic) == (new.step, new.origin, new.point, new.periodic)


def _is_of_one_piece(plan: ContinuousPlan) -> bool:
    """Whether the state of a sub-plan depends on the whole plan."""
    return has_internal(plan) or _restores(plan)


def _restores(plan: ContinuousPlan) -> bool:
    return any(isinstance(one, ToStream) and one.restores for one in walk(plan.root))


def nodes_by_path(root: Node, path: str = ROOT) -> Iterator[tuple[str, Node]]:
    """All nodes with their paths, from above."""
    yield path, root
    for i, one in enumerate(root.inputs):
        yield from nodes_by_path(one, f"{path}.{i}")


def windows_by_path(plan: ContinuousPlan) -> dict[str, int]:
    """The numbers of a plan's windows by their paths."""
    paths = [path for path, node in nodes_by_path(plan.root) if isinstance(node, Window)]
    return {path: i for i, path in enumerate(paths)}


def _names(old: Node, new: Node) -> dict[str, str]:
    """What columns of equal sub-plans are called, from old to new. Those of aggregates have names that depend on what
    their arguments are called."""
    found = dict[str, str]()
    for one, other in zip(walk(old), walk(new), strict=True):
        found.update((a.sql, b.sql) for a, b in zip(one.schema, other.schema, strict=True))
        if isinstance(one, GroupBy) and isinstance(other, GroupBy):
            mine, theirs = calls_of(one), calls_of(other)
            for schema, same in ((mine.group_schema, theirs.group_schema), (mine.cell_schema, theirs.cell_schema)):
                found.update(zip(schema.names, same.names, strict=True))
    return found
