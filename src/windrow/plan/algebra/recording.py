"""A continuous plan as plain JSON values, and back.

The state of a query on disk is that of one plan: its operators, its columns, its windows. Which plan the rules choose
depends on estimates, and these on the version of Windrow. So the catalog keeps the plan itself.

    nodes   a list, inputs first; a node names its inputs by their places in it
    trees   an expression is a list of its parts, each with the place of the one above it, since conditions may be deep

A field that has its default is left out. So a later version may give nodes more fields, but must not change a default.
Names are looked up among the classes that a plan consists of: nothing else can be made of a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, cast, get_args

from sqlglot import exp

from windrow.cql import dialect
from windrow.errors import StateError, first_line
from windrow.plan.accumulators import Accumulator, AggregateCall, Key, Kind
from windrow.plan.algebra import nodes
from windrow.plan.algebra.invariants import check
from windrow.plan.algebra.nodes import ContinuousPlan, Node, walk
from windrow.plan.nodes import Attribute, Order
from windrow.types import SqlType

Record = dict[str, Any]
"""What JSON has of a plan."""

NODES: dict[str, type] = {kind.__name__: kind for kind in get_args(Node)}

PARTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(nodes.Aggregated, nodes.Computed, nodes.Lifetime, nodes.PlanColumn, nodes.StreamColumn, nodes.TableColumn),
        *(Accumulator, AggregateCall, Attribute, Key, Order),
    )
}

CHOICES: dict[str, type[Enum]] = {
    kind.__name__: kind for kind in (Kind, nodes.Expiring, nodes.SetKind, nodes.Streaming)
}

OF_PLAN = ("point", "step", "origin", "periodic", "order")
"""The fields of a plan beside its root."""


def recorded(plan: ContinuousPlan) -> Record:
    """The plan as JSON values. Equal records mean equal plans, with equal names for users."""
    places, listed = dict[int, int](), list[Record]()
    for node in walk(plan.root):
        listed.append({"node": type(node).__name__, **_fields(node, places)})
        places[id(node)] = len(listed) - 1
    return {"nodes": listed, **{name: _saved(getattr(plan, name), {}) for name in OF_PLAN}}


def restored_plan(record: Mapping[str, Any]) -> ContinuousPlan:
    """The plan of a record. Raises StateError if this version cannot read it, or not without a difference."""
    try:
        listed = list[Any]()
        for one in record["nodes"]:
            listed.append(_made(NODES[one["node"]], one, listed))
        plan = ContinuousPlan(listed[-1], **{name: _restored(record[name], []) for name in OF_PLAN})
        check(plan)
        is_same = recorded(plan) == record
    except Exception as error:
        raise StateError(f"the saved plan cannot be read ({type(error).__name__}: {first_line(error)})") from error
    if not is_same:
        raise StateError("the saved plan cannot be read: this version of Windrow makes another plan of it")
    return plan


# -- values ----------------------------------------------------------------------------------------


def _saved(value: Any, places: Mapping[int, int]) -> Any:
    """A value of a field. `places`: of the nodes that are listed already, by identity."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        return [_saved(one, places) for one in value]
    if isinstance(value, exp.Expr):
        return {"tree": _saved_tree(value)}
    if isinstance(value, SqlType):
        return {"type": value.name}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    name = type(value).__name__
    if isinstance(value, Enum) and name in CHOICES:
        return {"choice": [name, value.name]}
    if name in NODES:
        return {"input": places[id(value)]}
    if name in PARTS:
        return {"part": name, **_fields(value, places)}
    raise TypeError(f"a plan has no {name}")


def _fields(value: Any, places: Mapping[int, int]) -> Record:
    """The fields of a node or a part that differ from their defaults."""
    assert is_dataclass(value)
    found = ((one.name, getattr(value, one.name), one.default) for one in fields(value))
    return {name: _saved(given, places) for name, given, default in found if default is MISSING or given != default}


def _restored(saved: Any, listed: Sequence[Any]) -> Any:
    if isinstance(saved, list):
        return tuple(_restored(one, listed) for one in saved)
    if not isinstance(saved, dict):
        return saved
    if "part" in saved:
        return _made(PARTS[saved["part"]], saved, listed)
    if "tree" in saved:
        return _restored_tree(saved["tree"])
    if "type" in saved:
        return SqlType(saved["type"])
    if "decimal" in saved:
        return Decimal(saved["decimal"])
    if "choice" in saved:
        name, choice = saved["choice"]
        return CHOICES[name][choice]
    return listed[saved["input"]]


def _made(kind: type, saved: Mapping[str, Any], listed: Sequence[Any]) -> Any:
    """A node or a part of its fields."""
    return kind(**{name: _restored(one, listed) for name, one in saved.items() if name not in ("node", "part")})


# -- expressions -----------------------------------------------------------------------------------

NODE, TYPE, VALUE = "node", "type", "value"
"""The parts of a tree: a node, a type of sqlglot's, a constant."""


def _saved_tree(tree: exp.Expr) -> list[list[Any]]:
    """The parts of a tree from above: the place of the one above, the argument there, whether that is a list, what it
    is, and its name or value. Where the user wrote it is left out."""
    found, waiting = list[list[Any]](), list[tuple[Any, int, str, bool]]([(tree, -1, "", False)])
    while waiting:
        part, above, argument, is_listed = waiting.pop()
        found.append([above, argument, is_listed, *_named(part)])
        if isinstance(part, exp.Expr):
            at = len(found) - 1
            for name, value in reversed(part.args.items()):
                if isinstance(value, list):
                    waiting += [(one, at, name, True) for one in reversed(value)]
                elif value is not None:
                    waiting.append((value, at, name, False))
    return found


def _named(part: Any) -> tuple[str, Any]:
    if isinstance(part, exp.Expr):
        return NODE, type(part).__name__
    if isinstance(part, exp.DType):
        return TYPE, part.value
    if part is None or isinstance(part, bool | int | str):
        return VALUE, part
    raise TypeError(f"an expression has no {type(part).__name__}")


def _restored_tree(saved: Sequence[Sequence[Any]]) -> exp.Expr:
    made = list[Any]()
    for above, argument, is_listed, kind, value in saved:
        part = _expression(value)() if kind == NODE else exp.DType(value) if kind == TYPE else value
        made.append(part)
        if above >= 0 and is_listed:
            made[above].append(argument, part)
        elif above >= 0:
            made[above].set(argument, part)
    return cast(exp.Expr, made[0])


def _expression(name: str) -> type[exp.Expr]:
    """The class of an expression, of sqlglot or Windrow's own."""
    found = getattr(exp, name, None) or getattr(dialect, name, None)
    if not (isinstance(found, type) and issubclass(found, exp.Expr)):
        raise ValueError(f"{name} is no expression")
    return found
