"""Names: which input and column a name in a SELECT means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.cql.dialect import TO_STREAM
from windrow.cql.tokens import nearest, nearest_place
from windrow.errors import BindError, Place, UnsupportedError
from windrow.plan.algebra.nodes import MOST_INPUTS
from windrow.plan.binder import RESERVED_OUTPUTS
from windrow.plan.continuous.inputs import Input, Item, StreamInput
from windrow.plan.continuous.shape import JoinKind

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


@dataclass(frozen=True)
class Around:
    """The names of the query around a sub-query of a condition. `bar` says why they cannot be used; None: they can."""

    scope: Scope
    bar: str | None = None


class Scope:
    """The inputs of FROM, from left to right. Columns of USING have one value: that of the left input; of an outer join
    that of the side that is there."""

    def __init__(self, text: str, around: Around | None = None):
        self.text = text
        self.around = around
        self.inputs: list[Input] = []
        self._fields: list[dict[str, Item]] = []
        self._closed: set[int] = set()
        self._hidden: set[tuple[int, str]] = set()
        self._shared: dict[int, list[tuple[int, str]]] = {}
        self._values: dict[tuple[int, str], exp.Expr] = {}

    def add_hidden(self, given: Input) -> int:
        """Add an input that no name means: the sub-query of a condition. Returns its number."""
        self.inputs.append(given)
        self._fields.append({item.name.lower(): item for item in given.items})
        self.close(len(self.inputs) - 1)
        return len(self.inputs) - 1

    def close(self, index: int) -> None:
        """Take the names of an input away: those of the right side of a semi-join end with it."""
        self._closed.add(index)

    @property
    def visible(self) -> list[int]:
        """The inputs that names can mean."""
        return [index for index in range(len(self.inputs)) if index not in self._closed]

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
        return any(name.lower() in self._fields[index] for index in self.visible)

    def qualifiers(self, name: str) -> list[str]:
        """The aliases of the inputs with a column of this name."""
        return [self.inputs[index].alias for index in self.visible if name.lower() in self._fields[index]]

    def knows(self, node: exp.Column) -> bool:
        """Whether the column is one of an input."""
        if not node.table:
            return self.has(node.name)
        return any(
            self.inputs[index].alias.lower() == node.table.lower() and node.name.lower() in self._fields[index]
            for index in self.visible
        )

    def is_outer(self, node: exp.Column) -> bool:
        """Whether the column is one of the query around this one, and may be used here."""
        if node.meta_get(_RESOLVED) or self.around is None or self.around.bar is not None:
            return False
        aliases = {self.inputs[index].alias.lower() for index in self.visible}
        is_own = node.table.lower() in aliases if node.table else self.has(node.name)
        return not is_own and self.around.scope.knows(node)

    def share(self, name: exp.Identifier, kind: JoinKind = JoinKind.INNER) -> tuple[exp.Expr, exp.Expr]:
        """The values of a USING name in the inputs before the last and in the last, which are one from here on."""
        last = len(self.inputs) - 1
        found = self._candidates(name.name, last)
        if not found or name.name.lower() not in self._fields[last]:
            sides = (self.inputs[0] if last == 1 else None, self.inputs[last])
            lacking = sides[1] if found else sides[0]
            called = lacking.called if lacking is not None else "no input before it"
            verb = "has no column" if lacking is not None else "has a column"
            raise BindError(
                f"USING ({name.name}): {called} {verb} '{name.name}'",
                place=nearest_place(name, self.text),
                remedy="Name a column that both sides have, or write ON.",
            )
        if len(found) > 1:
            raise self._ambiguous(name, name.name, found)
        key = (found[0], name.name.lower())
        before, after = self._value(*key, name), resolved(last, self._fields[last][key[1]].name, name)
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            return before, after
        self._hidden.add((last, key[1]))
        self._shared.setdefault(last, []).append(key)
        if kind is JoinKind.RIGHT:
            self._values[key] = after.copy()
        elif kind is JoinKind.FULL:
            self._values[key] = exp.Coalesce(this=before.copy(), expressions=[after.copy()])
        return before, after

    def _value(self, index: int, name: str, written: exp.Expr) -> exp.Expr:
        """What an unqualified name means."""
        shared = self._values.get((index, name))
        if shared is None:
            return resolved(index, self._fields[index][name].name, written)
        made = shared.copy()
        for column in made.find_all(exp.Column):
            column.meta[_RESOLVED] = True
            placed(column, written)
        return made

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """The tree with its columns resolved; raises BindError for a name that is unknown or ambiguous."""

        def found(node: exp.Expr) -> exp.Expr:
            return self._column(node) if isinstance(node, exp.Column) else node

        return tree.copy().transform(found)

    def star(self, node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
        """The names and columns of `*` or `alias.*`, in Spark's order: each USING brings its columns to the front."""
        shown, hidden = self._in_order()
        if isinstance(node, exp.Column):
            wanted = self._qualified(node)
            for index, name in (*hidden, *shown):
                if index == wanted:
                    yield self._fields[index][name].name, resolved(index, self._fields[index][name].name, node)
            return
        for index, name in shown:
            yield self._fields[index][name].name, self._value(index, name, node)

    def _in_order(self) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """The columns that `*` shows, and those that USING hides: only their alias shows them."""
        shown, hidden = list[tuple[int, str]](), list[tuple[int, str]]()
        for index in self.visible:
            fields = self._fields[index]
            keys = list(dict.fromkeys(self._shared.get(index, ())))
            own = [(index, name) for name in fields if (index, name) not in self._hidden]
            shown = [*keys, *(one for one in shown if one not in keys), *own]
            hidden = [*((index, name) for _, name in keys), *hidden]
        return shown, hidden

    def _candidates(self, name: str, before: int | None = None) -> list[int]:
        """The inputs with a column of this name that is not hidden, of those before an input."""
        inputs = [index for index in self.visible if before is None or index < before]
        return [i for i in inputs if name.lower() in self._fields[i] and (i, name.lower()) not in self._hidden]

    def _column(self, node: exp.Column) -> exp.Expr:
        name = node.name.lower()
        if node.meta_get(_RESOLVED):
            return node
        if node.table:
            index = self._qualified(node)
            if name not in self._fields[index]:
                raise self._unknown(node, [index])
            return resolved(index, self._fields[index][name].name, node)
        found = self._candidates(name)
        if len(found) > 1:
            raise self._ambiguous(node, node.name, found)
        if not found:
            self._refuse_outer(node)
            raise self._unknown(node, self.visible)
        return self._value(found[0], name, node)

    def _refuse_outer(self, node: exp.Column) -> None:
        """Refuse a column of a query around this one where it cannot be used."""
        around_it, levels = self.around, 1
        while around_it is not None:
            around_it.scope.refuse_unknown_of(node)
            if around_it.scope.knows(node):
                why = around_it.bar or "outside of WHERE"
                why = "more than one level below that query" if levels > 1 and around_it.bar is None else why
                raise UnsupportedError(
                    f"'{_written(node)}' is a column of the query around this sub-query, and cannot be used {why}",
                    place=nearest_place(node, self.text),
                    remedy="Compare it with a column of the sub-query's own streams in its WHERE: "
                    "EXISTS (SELECT 1 FROM t [RANGE …] WHERE t.k = s.k).",
                )
            around_it, levels = around_it.scope.around, levels + 1

    def refuse_unknown_of(self, node: exp.Column) -> None:
        """Refuse a column that names an input which does not have it."""
        aliases = {self.inputs[index].alias.lower(): index for index in self.visible}
        known = [aliases[node.table.lower()]] if node.table and node.table.lower() in aliases else []
        if known and node.name.lower() not in self._fields[known[0]]:
            raise self._unknown(node, known)

    def _qualified(self, node: exp.Column) -> int:
        known = {self.inputs[index].alias.lower(): index for index in self.visible if self.inputs[index].alias}
        if node.table.lower() in known:
            return known[node.table.lower()]
        self._refuse_outer(node)
        near = nearest(node.table.lower(), known)
        hint = f"Did you mean '{self.inputs[known[near]].alias}'? " if near else ""
        names = ", ".join(self.inputs[index].alias for index in known.values())
        raise BindError(
            f"'{node.table}' is not in FROM", place=nearest_place(node, self.text), remedy=f"{hint}FROM has: {names}."
        )

    def _ambiguous(self, node: exp.Expr, name: str, found: Sequence[int]) -> BindError:
        names = [f"{self.inputs[index].alias or '…'}.{name}" for index in found]
        return BindError(
            f"'{name}' is ambiguous: it is a column of {len(names)} inputs",
            place=nearest_place(node, self.text),
            remedy=f"Write {', '.join(names[:-1])} or {names[-1]}.",
        )

    def unknown(self, node: exp.Column, aliases: Sequence[str] = ()) -> BindError:
        """The error for a name that is neither a column of an input nor one of these aliases."""
        return self._unknown(node, self.visible, aliases)

    def _unknown(self, node: exp.Column, inputs: Sequence[int], aliases: Sequence[str] = ()) -> BindError:
        if node.name.lower() in RESERVED_OUTPUTS and not node.table:
            return BindError(
                f"'{node.name}' is a column of the answer, not of the stream",
                place=nearest_place(node, self.text),
                remedy="Leave it out.",
            )
        if node.name.upper() in TO_STREAM and not node.table:
            return BindError(
                f"{node.name.upper()} stands around the select list, with parentheses",
                place=nearest_place(node, self.text),
                remedy=f"Write SELECT {node.name.upper()}(…) FROM …",
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
            place=nearest_place(node, self.text),
            remedy=f"{hint}{listed}." + (f" Aliases: {', '.join(aliases)}." if aliases else ""),
        )

    def _title(self, index: int) -> str:
        one = self.inputs[index]
        if len(self.visible) == 1:
            return "Its columns"
        return f"Columns of {one.alias or (one.view.stream.name if isinstance(one, StreamInput) else 'the sub-query')}"


def _written(node: exp.Column) -> str:
    return f"{node.table}.{node.name}" if node.table else str(node.name)
