"""Share sub-plans: those that occur in several queries, the largest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windrow.optimizer.shared_plans.canonical import CanonicalPlan, canonical
from windrow.plan.algebra.nodes import ContinuousPlan, Node, StreamWindow
from windrow.plan.algebra.rewriting import with_inputs

Path = tuple[int, ...]


@dataclass(frozen=True)
class Occurrence:
    """Where a sub-plan stands: in which of the plans, at which path from its root; and its columns by position."""

    plan: int
    path: Path
    columns: tuple[int, ...]


@dataclass(frozen=True)
class SharedPlan:
    """A sub-plan that several plans contain. `columns` of an occurrence correspond by position."""

    key: str
    node: Node
    occurrences: tuple[Occurrence, ...]


def share_subplans(plans: Sequence[ContinuousPlan]) -> tuple[SharedPlan, ...]:
    """The sub-plans that occur at least twice in plans with the same ticks; windows over streams alone do not count,
    since their stores are shared anyway, and neither do parts of a sub-plan that is shared as often as they are."""
    found: dict[tuple[object, ...], list[tuple[Node, Occurrence]]] = {}
    for i, plan in enumerate(plans):
        for path, node in _paths(plan.root, ()):
            if not isinstance(node, StreamWindow):
                name: CanonicalPlan = canonical(node)
                ticks = (plan.point, plan.step, plan.origin, name.key)
                found.setdefault(ticks, []).append((node, Occurrence(i, path, name.columns)))
    shared = [
        SharedPlan(str(key[-1]), places[0][0], tuple(place for _, place in places))
        for key, places in found.items()
        if len(places) > 1
    ]
    return tuple(one for one in shared if not any(_covers(other, one) for other in shared if other is not one))


def _covers(larger: SharedPlan, smaller: SharedPlan) -> bool:
    """Whether the smaller one occurs only inside the larger one."""
    return all(
        any(
            a.plan == b.plan and len(a.path) < len(b.path) and b.path[: len(a.path)] == a.path
            for a in larger.occurrences
        )
        for b in smaller.occurrences
    )


def _paths(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    yield path, node
    for i, one in enumerate(node.inputs):
        yield from _paths(one, (*path, i))


def node_at(root: Node, path: Path) -> Node:
    """The node at a path from the root."""
    return root if not path else node_at(root.inputs[path[0]], path[1:])


def replaced_at(root: Node, path: Path, node: Node) -> Node:
    """The plan with another node at a path."""
    if not path:
        return node
    inputs = list(root.inputs)
    inputs[path[0]] = replaced_at(inputs[path[0]], path[1:], node)
    return with_inputs(root, inputs)
