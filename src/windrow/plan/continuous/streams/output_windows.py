"""Windows on the output of queries (Golab's dissertation, sections 3.3.3 and 3.4).

A window stands on a sub-query whose output is monotonic, or behind WSTREAM(…), which takes the windows of the streams
as INTERNAL: results stay until the window on the output drops them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.cql.window_clause import WindowClause, WindowKind
from windrow.errors import BindError, Place, UnsupportedError
from windrow.plan.algebra.nodes import Distinct, Node, OutputRows, OutputWindow, ToStream
from windrow.plan.continuous.context import BindContext
from windrow.plan.continuous.inputs import Relation, StreamInput, StreamView, node_of
from windrow.plan.continuous.properties import (
    as_internal,
    how_to_grow,
    is_monotonic,
    is_strict,
    why_not_monotonic,
    why_strict,
)


def windowed(relation: Relation, clause: WindowClause, context: BindContext) -> Relation:
    """The relation with a window on its output; raises BindError unless the output only grows."""
    is_counted = clause.kind is WindowKind.ROWS
    size = context.clock.rows_of_output(clause) if is_counted else 0
    lifetime = None if is_counted else context.clock.of_output(clause)
    node = StreamInput("", relation, context.columns).node(()) if isinstance(relation, StreamView) else relation
    if not is_monotonic(node):
        raise BindError(
            f"a window stands on a stream, or on a sub-query whose output only grows; here {why_not_monotonic(node)}",
            place=clause.place,
            remedy=f"In the sub-query: {how_to_grow(node)}.",
        )
    if lifetime is None:
        return OutputRows(node_of(relation, context.columns), size)
    if isinstance(relation, StreamView):
        # A result is born with its tuple, so the window on the output is one on the stream.
        offset = relation.lifetime.offset + lifetime.offset
        return replace(relation, lifetime=replace(lifetime, offset=offset))
    return OutputWindow(relation, lifetime)


def as_growing(relation: Relation, place: Place | None) -> Relation:
    """The relation below WSTREAM, whose results stay; raises UnsupportedError if some would no longer be right."""
    if isinstance(relation, StreamView):
        if relation.rows is not None:
            raise _refused("later tuples push earlier ones out of a window of ROWS", place)
        return replace(relation, lifetime=replace(relation.lifetime, internal=True))
    if is_strict(relation):
        raise _refused(why_strict(relation), place)
    if any(isinstance(one, Distinct) for one in _seen(relation)):
        raise _refused("a value of DISTINCT that comes again would be there twice", place)
    return as_internal(relation)


def refuse_around(what: str, place: Place | None) -> None:
    """Refuse DISTINCT or LIMIT between the select list and WSTREAM."""
    why = {
        "DISTINCT": "a value of DISTINCT that comes again would be there twice",
        "LIMIT": "a row that LIMIT no longer lets through would stay",
    }
    raise _refused(why[what], place)


def _seen(node: Node) -> Iterator[Node]:
    """The operators whose results a window on the output would keep."""
    yield node
    for one in () if isinstance(node, ToStream | OutputWindow) else node.inputs:
        yield from _seen(one)


def _refused(why: str, place: Place | None) -> UnsupportedError:
    return UnsupportedError(
        f"WSTREAM keeps results until its own window drops them, whatever becomes of their parts; here {why} (Golab's "
        "dissertation, section 3.3.3)",
        place=place,
        remedy="Put the window on what is reported: FROM (SELECT ISTREAM(…) …) [ROWS 10] AS x.",
    )
