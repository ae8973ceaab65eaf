"""Where a semi-join or an anti-join may stand: the moves by which one plan becomes another with the same answers.

Let X(b) be the rows of X at tick b. A row l of L is in (L ▷ R)(b) if it is in L(b) and none of R(b) matches it, which
depends on the values of l in the columns that keys and condition read, and on nothing else of L. Hence, at every tick,

    (L ▷ R) ⋈ C   =  (L ⋈ C) ▷ R        above a join, from any of its inputs
    (L ▷ R) ▷ Q   =  (L ▷ Q) ▷ R        above another one, from its left input
    δ(L ▷ R)      =  δ(L) ▷ R           above DISTINCT
    γ(L ▷ R)      =  γ(L) ▷ R           above group-by, if only group keys are read
    L EXCEPT R    =  δ(L) ▷ R           on all columns, where NULL equals NULL; INTERSECT is δ(L) ⋉ R

and the same with ⋉ for ▷. Each move is one of the first four, in either direction, with the selections and projections
between carried along; EXCEPT and INTERSECT go above a join as what the fifth says. Downwards into a join, an input that
has the columns under other names, because keys of the join say that they are equal, is as good.

Answers are the same at every tick. Which rows carry their end in `exp` and which are withdrawn may differ: δ* gives
ends, counting and EXCEPT withdraw.

*Not equivalent*, so never done: below a join with a table that is NON RETROACTIVE (it cannot process negative tuples,
and shows the table as of the birth of its row); with INTERNAL windows, whose results outlive their parts; through
LIMIT, an aggregate without keys, a relation-to-stream operator or a window over it; past DISTINCT, group-by or an
equality of join keys where a FLOAT or DOUBLE is read, since these take −0.0 and 0.0 for one value and show either.
EXCEPT ALL and INTERSECT ALL count, so they stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from windrow.plan.algebra.nodes import (
    Computed,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Node,
    OutputWindow,
    PlanColumn,
    Project,
    SemiJoin,
    SetKind,
    SetOperation,
    StreamWindow,
    columns_in,
    walk,
)
from windrow.plan.algebra.rewriting import (
    expressions_of,
    names_of,
    passed,
    projected,
    reference,
    substituted,
    with_inputs,
)


def moved(root: Node) -> Iterator[Node]:
    """The plans that one move makes of a plan."""
    yield from _at(root)
    for i, one in enumerate(root.inputs):
        for other in moved(one):
            yield with_inputs(root, [*root.inputs[:i], other, *root.inputs[i + 1 :]])


def can_move(root: Node) -> bool:
    """Whether there is a negation, and no INTERNAL window."""
    internal = any(isinstance(one, StreamWindow | OutputWindow) and one.lifetime.internal for one in walk(root))
    return not internal and any(_is_negation(one) for one in walk(root))


def _is_negation(node: Node) -> bool:
    return isinstance(node, SemiJoin) or (isinstance(node, SetOperation) and not node.is_all)


def _at(node: Node) -> Iterator[Node]:
    """The moves whose upper end is this node."""
    for i in range(len(node.inputs)):
        yield from _raised(node, i)
    if isinstance(node, SemiJoin):
        yield from _lowered(node)


# -- up --------------------------------------------------------------------------------------------


def _raised(node: Node, i: int) -> Iterator[Node]:
    """A negation that an input of the node is, perhaps below selections and projections, above the node."""
    found = _through(node.inputs[i], isinstance(node, Join))
    if found is None:
        return
    semi, below, names = found
    if isinstance(node, Join) or (isinstance(node, SemiJoin) and i == 0):
        # The columns that the negation reads travel through the join, and go above it.
        below, names = _with_columns(below, semi, names)
        raised = _over(with_inputs(node, [*node.inputs[:i], below, *node.inputs[i + 1 :]]), semi, names)
        yield projected(raised, node.schema)
    elif isinstance(node, Distinct | GroupBy):
        read, keys = _read(semi), node.keys if isinstance(node, GroupBy) else node.schema
        own = {key.sql: key for key in keys}
        if read and all(_known(names, name) in own for name in read) and not _reads_float(semi):
            yield _over(with_inputs(node, [below]), semi, names)


def _through(node: Node, with_sets: bool) -> tuple[SemiJoin, Node, Mapping[str, str]] | None:
    """The negation below selections and projections, these over its left input, and under which names the columns of
    that input come out, as far as they do."""
    if isinstance(node, SetOperation) and with_sets:
        node = _as_semi_join(node) or node
    if isinstance(node, SemiJoin):
        return node, node.left, {column.sql: column.sql for column in node.schema}
    if not isinstance(node, Filter | Project):
        return None
    found = _through(node.input, with_sets)
    if found is None:
        return None
    semi, below, names = found
    if isinstance(node, Project):
        out = {one.expression.name: one.column.sql for one in node.columns if one.is_renamed}
        out |= {one.expression.name: one.column.sql for one in node.columns if _is_same(one)}
        names = {first: out[last] for first, last in names.items() if last in out}
    return semi, with_inputs(node, [below]), names


def _is_same(one: Computed) -> bool:
    return one.is_renamed and one.expression.name == one.column.sql


def _with_columns(node: Node, semi: SemiJoin, names: Mapping[str, str]) -> tuple[Node, Mapping[str, str]]:
    """The selections and projections with all columns that the negation reads."""
    missing = [column for column in semi.left.schema if column.sql in _read(semi) and column.sql not in names]
    if not missing:
        return node, names
    return _passing(node, semi.left, missing), {**names, **{column.sql: column.sql for column in missing}}


def _passing(node: Node, bottom: Node, columns: list[PlanColumn]) -> Node:
    """The selections and projections above a node with more of its columns."""
    if node is bottom:
        return node
    assert isinstance(node, Filter | Project)
    inner = _passing(node.input, bottom, columns)
    if isinstance(node, Filter):
        return with_inputs(node, [inner])
    known = {one.column.sql for one in node.columns}
    return Project(inner, (*node.columns, *(passed(one) for one in columns if one.sql not in known)))


def _over(left: Node, semi: SemiJoin, names: Mapping[str, str]) -> SemiJoin:
    """The negation over another left input, which has its columns under these names."""
    return _renamed(semi, left, {old: exp.column(new) for old, new in names.items() if old != new})


# -- down ------------------------------------------------------------------------------------------


def _lowered(semi: SemiJoin) -> Iterator[Node]:
    """The negation below the operator under it."""
    for below, change in _descents(semi.left, {}):
        if isinstance(below, Join):
            for i in range(len(below.inputs)):
                values = _of_input(below, i, _read(_renamed(semi, semi.left, change)))
                if values is not None:
                    inner = _renamed(_renamed(semi, semi.left, change), below.inputs[i], values)
                    inputs = [*below.inputs[:i], inner, *below.inputs[i + 1 :]]
                    yield _rebuilt(semi.left, below, with_inputs(below, inputs))
        elif isinstance(below, SemiJoin):
            inner = _renamed(semi, below.left, change)
            yield _rebuilt(semi.left, below, with_inputs(below, [inner, below.right]))
        elif isinstance(below, Distinct | GroupBy):
            keys = below.keys if isinstance(below, GroupBy) else below.schema
            inner = _renamed(semi, below.input, change)
            if _read(inner) and _read(inner) <= {key.sql for key in keys} and not _reads_float(inner):
                yield _rebuilt(semi.left, below, with_inputs(below, [inner]))


def _descents(node: Node, change: Mapping[str, exp.Expr]) -> Iterator[tuple[Node, Mapping[str, exp.Expr]]]:
    """The operator below selections and projections, and what the columns above these are of its columns."""
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            values = expressions_of(node)
            change = {name: substituted(one, values) for name, one in change.items()} if change else values
        node = node.input
    yield node, change


def _rebuilt(top: Node, old: Node, new: Node) -> Node:
    """The selections and projections between `top` and `old` over another node."""
    return new if top is old else with_inputs(top, [_rebuilt(top.inputs[0], old, new)])


def _of_input(join: Join, i: int, read: frozenset[str]) -> Mapping[str, exp.Expr] | None:
    """What the columns that are read are in input i: themselves, or what a key says to equal them; None if one is in no
    other input, or a FLOAT or DOUBLE."""
    own, values = names_of(join.inputs[i]), dict[str, exp.Expr]()
    types = {column.sql: column.type for column in join.schema}
    for name in read - own:
        equal = [key[i] for key in join.keys if any(isinstance(one, exp.Column) and one.name == name for one in key)]
        if not equal or types[name].is_float:
            return None
        values[name] = equal[0]
    return values if read else None


# -- sets ------------------------------------------------------------------------------------------


def _as_semi_join(node: SetOperation) -> Node | None:
    """EXCEPT and INTERSECT as a negation over δ of the left input."""
    left, right = node.inputs
    is_exact = not any(column.type.is_float or pa.types.is_nested(column.type.arrow) for column in node.columns)
    if node.is_all or not is_exact:
        return None
    pairs = zip(left.schema, right.schema, strict=True)
    keys = tuple((reference(one), reference(other)) for one, other in pairs)
    semi = SemiJoin(Distinct(left), right, keys, None, node.kind is SetKind.EXCEPT, (True,) * len(keys))
    renamed = zip(node.columns, left.schema, strict=True)
    return Project(semi, tuple(Computed(column, reference(of)) for column, of in renamed))


# -- what a negation reads -------------------------------------------------------------------------


def _read(semi: SemiJoin) -> frozenset[str]:
    """The columns of its left input that keys and condition read."""
    own = names_of(semi.right)
    condition = frozenset[str]() if semi.condition is None else columns_in(semi.condition) - own
    return condition.union(*(columns_in(key[0]) for key in semi.keys))


def _reads_float(semi: SemiJoin) -> bool:
    return any(column.type.is_float for column in semi.left.schema if column.sql in _read(semi))


def _known(names: Mapping[str, str], name: str) -> str:
    return names.get(name, "")


def _renamed(semi: SemiJoin, left: Node, values: Mapping[str, exp.Expr]) -> SemiJoin:
    """The negation over another left input: what its columns are there."""
    keys = tuple((substituted(mine, values), theirs) for mine, theirs in semi.keys)
    condition = None if semi.condition is None else substituted(semi.condition, values)
    return replace(semi, left=left, keys=keys, condition=condition)
