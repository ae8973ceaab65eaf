"""Names: which input and column a name in a SELECT means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from windrow.cql.tokens import nearest
from windrow.errors import BindError, Place
from windrow.plan.binder import RESERVED_OUTPUTS
from windrow.plan.continuous.inputs import Input, Item, StreamInput
from windrow.plan.continuous.shape import around

MOST_INPUTS = 8
_RESOLVED = "resolved"


def resolved(index: int, name: str, written: exp.Expr) -> exp.Column:
    """A column of input `index`, with the place of the expression as written."""
    column = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(str(index), quoted=True))
    column.meta[_RESOLVED] = True
    return placed(column, written)


def placed(column: exp.Column, written: exp.Expr) -> exp.Column:
    """The column with the place of the expression that it replaces."""
    parts = [part.meta for part in written.walk() if part.meta_get("start") is not None]
    if parts:
        column.meta.update(start=min(meta["start"] for meta in parts), end=max(meta["end"] for meta in parts))
    return column


def input_of(column: exp.Column) -> int:
    """The input of a resolved column."""
    return int(column.table)


def inputs_in(tree: exp.Expr) -> frozenset[int]:
    """The inputs that a resolved tree reads."""
    return frozenset(input_of(column) for column in tree.find_all(exp.Column))


class Scope:
    """The inputs of FROM, from left to right. Columns of USING have one value: that of the left input."""

    def __init__(self, text: str):
        self._text = text
        self.inputs: list[Input] = []
        self._fields: list[dict[str, Item]] = []
        self._hidden: set[tuple[int, str]] = set()
        self._shared: dict[int, list[tuple[int, str]]] = {}

    def add(self, given: Input, place: Place | None) -> None:
        alias = given.alias.lower()
        if alias and any(alias == other.alias.lower() for other in self.inputs):
            raise BindError(
                f"two inputs of FROM are called '{given.alias}'",
                place=place,
                remedy=f"Give them aliases: FROM {given.alias} [RANGE …] AS a JOIN {given.alias} [RANGE …] AS b ON …",
            )
        if len(self.inputs) == MOST_INPUTS:
            raise BindError(
                f"FROM has more than {MOST_INPUTS} inputs",
                place=place,
                remedy="Make a stream of the join of some of them: CREATE STREAM name AS SELECT …",
            )
        self.inputs.append(given)
        self._fields.append({item.name.lower(): item for item in given.items})

    def fields(self, index: int) -> dict[str, Item]:
        """The columns of an input by their names in lower case."""
        return self._fields[index]

    def has(self, name: str) -> bool:
        """Whether an unqualified name is a column of some input."""
        return any(name.lower() in fields for fields in self._fields)

    def qualifiers(self, name: str) -> list[str]:
        """The aliases of the inputs with a column of this name."""
        return [one.alias for one, fields in zip(self.inputs, self._fields, strict=True) if name.lower() in fields]

    def share(self, name: exp.Identifier) -> tuple[exp.Column, exp.Column]:
        """The columns of a USING name in the inputs before the last and in the last, which are one from here on."""
        last = len(self.inputs) - 1
        found = self._candidates(name.name, last)
        if not found or name.name.lower() not in self._fields[last]:
            sides = (self.inputs[0] if last == 1 else None, self.inputs[last])
            lacking = sides[1] if found else sides[0]
            called = lacking.called if lacking is not None else "no input before it"
            verb = "has no column" if lacking is not None else "has a column"
            raise BindError(
                f"USING ({name.name}): {called} {verb} '{name.name}'",
                place=around(name, self._text),
                remedy="Name a column that both sides have, or write ON.",
            )
        if len(found) > 1:
            raise self._ambiguous(name, name.name, found)
        left = found[0]
        self._hidden.add((last, name.name.lower()))
        self._shared.setdefault(last, []).append((left, name.name.lower()))
        item, other = self._fields[left][name.name.lower()], self._fields[last][name.name.lower()]
        return resolved(left, item.name, name), resolved(last, other.name, name)

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """The tree with its columns resolved; raises BindError for a name that is unknown or ambiguous."""

        def found(node: exp.Expr) -> exp.Expr:
            return self._column(node) if isinstance(node, exp.Column) else node

        return tree.copy().transform(found)

    def star(self, node: exp.Expr) -> Iterator[tuple[str, exp.Column]]:
        """The names and columns of `*` or `alias.*`, in Spark's order: each USING brings its columns to the front."""
        shown, hidden = self._in_order()
        if isinstance(node, exp.Column):
            wanted = self._qualified(node)
            shown = [(index, name) for index, name in (*hidden, *shown) if index == wanted]
        for index, name in shown:
            item = self._fields[index][name]
            yield item.name, resolved(index, item.name, node)

    def _in_order(self) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """The columns that `*` shows, and those that USING hides: only their alias shows them."""
        shown, hidden = list[tuple[int, str]](), list[tuple[int, str]]()
        for index, fields in enumerate(self._fields):
            keys = list(dict.fromkeys(self._shared.get(index, ())))
            own = [(index, name) for name in fields if (index, name) not in self._hidden]
            shown = [*keys, *(one for one in shown if one not in keys), *own]
            hidden = [*((index, name) for _, name in keys), *hidden]
        return shown, hidden

    def _candidates(self, name: str, before: int | None = None) -> list[int]:
        """The inputs with a column of this name that is not hidden, of those before an input."""
        inputs = range(len(self.inputs) if before is None else before)
        return [i for i in inputs if name.lower() in self._fields[i] and (i, name.lower()) not in self._hidden]

    def _column(self, node: exp.Column) -> exp.Column:
        name = node.name.lower()
        if node.meta_get(_RESOLVED):
            return node
        if node.table:
            index = self._qualified(node)
            if name not in self._fields[index]:
                raise self._unknown(node, [index])
        else:
            found = self._candidates(name)
            if len(found) > 1:
                raise self._ambiguous(node, node.name, found)
            if not found:
                raise self._unknown(node, range(len(self.inputs)))
            index = found[0]
        return resolved(index, self._fields[index][name].name, node)

    def _qualified(self, node: exp.Column) -> int:
        known = {one.alias.lower(): index for index, one in enumerate(self.inputs) if one.alias}
        if node.table.lower() in known:
            return known[node.table.lower()]
        near = nearest(node.table.lower(), known)
        hint = f"Did you mean '{self.inputs[known[near]].alias}'? " if near else ""
        names = ", ".join(one.alias for one in self.inputs if one.alias)
        raise BindError(
            f"'{node.table}' is not in FROM", place=around(node, self._text), remedy=f"{hint}FROM has: {names}."
        )

    def _ambiguous(self, node: exp.Expr, name: str, found: Sequence[int]) -> BindError:
        names = [f"{self.inputs[index].alias or '…'}.{name}" for index in found]
        return BindError(
            f"'{name}' is ambiguous: it is a column of {len(names)} inputs",
            place=around(node, self._text),
            remedy=f"Write {', '.join(names[:-1])} or {names[-1]}.",
        )

    def unknown(self, node: exp.Column, aliases: Sequence[str] = ()) -> BindError:
        """The error for a name that is neither a column of an input nor one of these aliases."""
        return self._unknown(node, range(len(self.inputs)), aliases)

    def _unknown(self, node: exp.Column, inputs: Sequence[int], aliases: Sequence[str] = ()) -> BindError:
        if node.name.lower() in RESERVED_OUTPUTS and not node.table:
            return BindError(
                f"'{node.name}' is a column of the answer, not of the stream",
                place=around(node, self._text),
                remedy="Leave it out.",
            )
        offered = {item.name.lower(): item.name for index in inputs for item in self.inputs[index].items}
        offered |= {alias.lower(): alias for alias in aliases}
        near = nearest(node.name.lower(), offered)
        hint = f"Did you mean '{offered[near]}'? " if near else ""
        one = self.inputs[inputs[0]] if len(inputs) == 1 else None
        where = f"{one.called} has" if one is not None else "FROM has"
        listed = ". ".join(
            f"{self._title(index)}: {', '.join(item.name for item in self.inputs[index].items)}" for index in inputs
        )
        return BindError(
            f"{where} no column '{node.name}'" + (", nor is it an alias" if aliases else ""),
            place=around(node, self._text),
            remedy=f"{hint}{listed}." + (f" Aliases: {', '.join(aliases)}." if aliases else ""),
        )

    def _title(self, index: int) -> str:
        one = self.inputs[index]
        if len(self.inputs) == 1:
            return "Its columns"
        return f"Columns of {one.alias or (one.view.stream.name if isinstance(one, StreamInput) else 'the sub-query')}"
