"""Whether durable parts can be those of a plan. Where they are not, the plan must not go on from them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windrow.operators.carrying.matching import nodes_by_path
from windrow.operators.layouts.choosing import is_chosen
from windrow.operators.layouts.parts import StatePart
from windrow.operators.state import OUTPUT, ROOT, empty_tables
from windrow.plan.algebra.nodes import ContinuousPlan, Node
from windrow.plan.algebra.rewriting import names_of

_COLUMN = re.compile(r"c\d+")


def misfits(plan: ContinuousPlan, parts: Iterable[StatePart]) -> list[str]:
    """The paths of parts that cannot be the plan's: no operator keeps a table there, or it keeps it in another layout,
    or has not these columns."""
    nodes = dict(nodes_by_path(plan.root))
    return list(dict.fromkeys(part.path for part in parts if not _fits(plan, nodes, part)))


def _fits(plan: ContinuousPlan, nodes: dict[str, Node], part: StatePart) -> bool:
    empty = empty_tables(plan).get(part.path)
    if empty is None or (part.layout is not empty.layout and not is_chosen(empty)):
        return False
    path, _, table = part.path.partition("/")
    names = {name for name in part.rows.column_names if _COLUMN.fullmatch(name)}
    node = nodes[ROOT if path == OUTPUT else path]
    if table == "old":  # whole rows of an input
        return names == names_of(node)
    return names <= names_of(node).union(*map(names_of, node.inputs))
