"""A plan in one line, in the signs of the documents: (a ⋈ b) ▷ c."""

from __future__ import annotations

from windrow.plan.algebra.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    Project,
    SemiJoin,
    SetKind,
    SetOperation,
    TableScan,
    TopRows,
    ToStream,
    Window,
    WindowExpiry,
)


def shape_text(node: Node) -> str:
    """Which operators stand over which. Projections and how rows expire are left out."""
    if isinstance(node, Project | WindowExpiry):
        return shape_text(node.input)
    if isinstance(node, Window):
        return node.called
    if isinstance(node, TableScan):
        return node.table
    if isinstance(node, Filter | Distinct | GroupBy | TopRows | OutputWindow | OutputRows):
        return f"{_UNARY[type(node)]}({shape_text(node.input)})"
    if isinstance(node, ToStream):
        return f"{node.kind.name}({shape_text(node.input)})"
    return f" {_sign(node)} ".join(map(_operand, node.inputs))


_UNARY: dict[type[Node], str] = {
    Filter: "σ",
    Distinct: "δ",
    GroupBy: "γ",
    TopRows: "top",
    OutputWindow: "window",
    OutputRows: "rows",
}


def _operand(node: Node) -> str:
    while isinstance(node, Project | WindowExpiry):
        node = node.input
    text = shape_text(node)
    is_single = isinstance(node, Window | TableScan | ToStream) or type(node) in _UNARY
    return text if is_single else f"({text})"


def _sign(node: Join | SemiJoin | OuterJoin | NrrJoin | SetOperation | MergeUnion) -> str:
    if isinstance(node, Join):
        return "⋈"
    if isinstance(node, SemiJoin):
        return "▷" if node.is_anti else "⋉"
    if isinstance(node, OuterJoin):
        return "⟗" if node.keeps_left and node.keeps_right else "⟕" if node.keeps_left else "⟖"
    if isinstance(node, NrrJoin):
        return "⟕ᴺᴿᴿ" if node.is_left else "⋈ᴺᴿᴿ"
    if isinstance(node, SetOperation):
        return ("−" if node.kind is SetKind.EXCEPT else "∩") + (" ALL" if node.is_all else "")
    return "∪"
