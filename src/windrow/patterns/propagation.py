"""The update patterns of every edge of a plan (Golab's dissertation, sections 3.2.2, 3.3.2 and 3.5.1, corrected).

An edge has two patterns. That of its *state* says how rows leave what an operator above must keep, and is computed as
if every window were external (Figure 3.3). That of its *output* says what a user sees there: tuples of an INTERNAL
window leave the state, but results made of them stay. The corrections are in the documents' list of misprints:

- a merge-union is WKS only of windows of one length, since a later tuple of a shorter window may expire sooner;
- a join with one external window and else internal or unbounded ones is WK: with an external window of length 10, the
  result of (external 4, internal 4) lives [4, 14), that of (external 0, internal 5) lives [5, 10);
- INTERNAL does not pass DISTINCT (section 3.3.2): its answer would contain duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from windrow.patterns.lattice import UpdatePattern
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Expiring,
    Filter,
    GroupBy,
    Join,
    Lifetime,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    WindowExpiry,
)

MONOTONIC, WKS, WK, STR = UpdatePattern

Path = tuple[int, ...]
"""Where a node is: which input to take, from the root down. The root is ()."""


@dataclass(frozen=True)
class EdgePatterns:
    """The patterns of an edge, and the rule that gave them, in one sentence.

    `length` is the common length of all lifetimes if the state is WKS. `is_internal`: every window below is INTERNAL,
    and nothing between undoes that.
    """

    state: UpdatePattern
    output: UpdatePattern
    why: str
    length: int | None = None
    is_internal: bool = False

    def __post_init__(self) -> None:
        if (self.length is None) == (self.state is WKS):
            raise ValueError("lifetimes have one length if and only if the pattern is WKS")


@dataclass(frozen=True)
class Annotated:
    """A node, the patterns of its output edge, and its inputs."""

    node: Node
    path: Path
    edge: EdgePatterns
    inputs: tuple[Annotated, ...]

    @property
    def state(self) -> UpdatePattern:
        return self.edge.state

    @property
    def output(self) -> UpdatePattern:
        return self.edge.output

    @property
    def why(self) -> str:
        return self.edge.why

    def at(self, path: Path) -> Annotated:
        """The node at a path from here."""
        return self if not path else self.inputs[path[0]].at(path[1:])

    def walk(self) -> Iterator[Annotated]:
        """The nodes below and including this one, inputs first, from left to right."""
        for one in self.inputs:
            yield from one.walk()
        yield self


def annotate(plan: ContinuousPlan | Node) -> Annotated:
    """The plan with the patterns of every edge.

    Raises ValueError, with the reason, for a window over the output of a sub-query that is not MONOTONIC (section
    3.3.3).
    """
    return _annotated(plan.root if isinstance(plan, ContinuousPlan) else plan, ())


def why(node: Node) -> str:
    """The rule that gave the patterns of a node's output, in one sentence."""
    return annotate(node).why


def annotated_over(node: Node, inputs: tuple[Annotated, ...]) -> Annotated:
    """A node over inputs whose patterns are known; the paths are those of the inputs."""
    return Annotated(node, (), PROPAGATION[type(node)](node, tuple(one.edge for one in inputs)), inputs)


def _annotated(node: Node, path: Path) -> Annotated:
    inputs = tuple(_annotated(one, (*path, i)) for i, one in enumerate(node.inputs))
    return Annotated(node, path, PROPAGATION[type(node)](node, tuple(one.edge for one in inputs)), inputs)


Edges = tuple[EdgePatterns, ...]


def _window(lifetime: Lifetime, what: str) -> EdgePatterns:
    if lifetime.range is None:
        reason = f"{what} is unbounded, so nothing expires"
        return EdgePatterns(MONOTONIC, MONOTONIC, reason, None, lifetime.internal)
    if lifetime.internal:
        reason = f"{what} is INTERNAL: tuples leave the state first in, first out, and results stay in the output"
        return EdgePatterns(WKS, MONOTONIC, reason, lifetime.range, True)
    return EdgePatterns(WKS, WKS, f"tuples leave {what} first in, first out", lifetime.range)


def _stream_window(node: StreamWindow, inputs: Edges) -> EdgePatterns:
    return _window(node.lifetime, f"the window over {node.stream}")


def _output_window(node: OutputWindow, inputs: Edges) -> EdgePatterns:
    if inputs[0].output is not MONOTONIC:
        raise ValueError(f"a window over an output that is {inputs[0].output}: {inputs[0].why}")
    return _window(node.lifetime, "the window over the sub-query")


def _output_rows(node: OutputRows, inputs: Edges) -> EdgePatterns:
    if inputs[0].output is not MONOTONIC:
        raise ValueError(f"a window over an output that is {inputs[0].output}: {inputs[0].why}")
    return EdgePatterns(STR, STR, "a result leaves the last rows when later ones come, which nobody can predict")


def _kept(what: str) -> Callable[[Node, Edges], EdgePatterns]:
    def rule(node: Node, inputs: Edges) -> EdgePatterns:
        one = inputs[0]
        reason = f"{what} keeps the lifetimes of its input"
        return EdgePatterns(one.state, one.output, reason, one.length, one.is_internal)

    return rule


def _merge_union(node: MergeUnion, inputs: Edges) -> EdgePatterns:
    lengths = {one.length for one in inputs}
    state = _mixed([one.state for one in inputs], lengths)
    output = _mixed([one.output for one in inputs], lengths)
    if state is WKS:
        reason = "the windows of a merge-union have one length, so its tuples expire first in, first out"
    elif state is WK and max(one.state for one in inputs) is WKS:
        reason = "windows of different lengths are merged, so a later tuple may expire sooner"
    else:
        reason = f"a merge-union has the most complex pattern of its inputs, {state}"
    internal = all(one.is_internal for one in inputs)
    return EdgePatterns(state, output, reason, lengths.pop() if state is WKS else None, internal)


def _mixed(patterns: list[UpdatePattern], lengths: set[int | None]) -> UpdatePattern:
    most = max(patterns)
    return WK if most is WKS and (len(set(patterns)) > 1 or len(lengths) > 1) else most


def _join(node: Join, inputs: Edges) -> EdgePatterns:
    state, output = (_weak([getattr(one, which) for one in inputs]) for which in ("state", "output"))
    if state is MONOTONIC:
        reason = "no part of a join result expires"
    elif state is STR:
        reason = "an input of the join is STR, so results may be withdrawn with it"
    else:
        reason = "a join result expires with the first of its parts, which is known, but not first in, first out"
        if output is MONOTONIC:
            reason += "; all windows that expire are INTERNAL, so results stay in the output"
    return EdgePatterns(state, output, reason, None, all(one.is_internal for one in inputs))


def _weak(patterns: list[UpdatePattern]) -> UpdatePattern:
    """Rule 3 of section 3.5.1, with MONOTONIC below it."""
    most = max(patterns)
    return WK if most is WKS else most


def _strict(reason: str) -> Callable[[Node, Edges], EdgePatterns]:
    """Rule 4 of section 3.5.1, and what is like negation."""
    return lambda node, inputs: EdgePatterns(STR, STR, reason)


def _semi_join(node: SemiJoin, inputs: Edges) -> EdgePatterns:
    what = "a matching row comes" if node.is_anti else "its last match goes"
    return EdgePatterns(STR, STR, f"a row is withdrawn before its exp when {what}, which nobody can predict")


def _nrr_join(node: NrrJoin, inputs: Edges) -> EdgePatterns:
    one = inputs[0]
    if STR in (one.state, one.output):
        raise ValueError("the input of a join with a table that is NON RETROACTIVE is not STR")
    reason = "a later change of the table changes no result, so results have the lifetimes of their rows"
    return EdgePatterns(one.state, one.output, reason, one.length, one.is_internal)


def _distinct(node: Distinct, inputs: Edges) -> EdgePatterns:
    state = _weak([inputs[0].state])
    if state is MONOTONIC:
        reason = "the first tuple of a value never expires"
    elif state is STR:
        reason = "the input of DISTINCT is STR, so a value may be withdrawn at any time"
    else:
        reason = "a value of DISTINCT is renewed by its youngest tuple when it expires, so lifetimes differ in length"
    return EdgePatterns(state, state, reason)


def _group_by(node: GroupBy, inputs: Edges) -> EdgePatterns:
    if inputs[0].is_internal:
        reason = "a group's row is replaced when a tuple comes or goes; over INTERNAL windows every row stays shown"
        return EdgePatterns(STR, MONOTONIC, reason, None, True)
    return EdgePatterns(STR, STR, "a group's row is replaced when a tuple comes or goes, which nobody can predict")


def _top_rows(node: TopRows, inputs: Edges) -> EdgePatterns:
    return EdgePatterns(STR, STR, "a row leaves the first rows when a better one comes, which nobody can predict")


def _expiry(node: WindowExpiry, inputs: Edges) -> EdgePatterns:
    one = inputs[0]
    if node.how is Expiring.NEGATIVE:
        return EdgePatterns(STR, STR, "every row that expires is withdrawn by a negative tuple")
    return EdgePatterns(one.state, one.output, "rows expire as in the window", one.length, one.is_internal)


def _to_stream(node: ToStream, inputs: Edges) -> EdgePatterns:
    return EdgePatterns(MONOTONIC, MONOTONIC, f"{node.words} only appends rows to a stream")


PROPAGATION: dict[type[Node], Callable[[Any, Edges], EdgePatterns]] = {
    StreamWindow: _stream_window,
    OutputWindow: _output_window,
    WindowExpiry: _expiry,
    OutputRows: _output_rows,
    RowsWindow: _strict("a tuple leaves a count-based window when later ones come, which nobody can predict"),
    Filter: _kept("selection"),
    Project: _kept("projection"),
    MergeUnion: _merge_union,
    Join: _join,
    SemiJoin: _semi_join,
    OuterJoin: _strict("a row of a kept side is withdrawn when its first match comes, which nobody can predict"),
    TableScan: _strict("a row of the table goes when a statement changes it, which nobody can predict"),
    NrrJoin: _nrr_join,
    SetOperation: _strict("how often a value is there changes with both inputs, which nobody can predict"),
    Distinct: _distinct,
    GroupBy: _group_by,
    TopRows: _top_rows,
    ToStream: _to_stream,
}
"""The rule of every operator: from the patterns of its inputs to those of its output."""
