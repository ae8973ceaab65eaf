"""Guards around calls that may make large values: a call whose result would exceed the bound is NULL, and is counted.

`IF(size > bound, NULL, call)`. The arguments of a nested call stand in a `Let`, so that the text stays short.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from windrow.cql.bounds.constants import check_sizes, never_grows
from windrow.cql.bounds.sizes import AFTERWARDS, BOUNDED, SIZES, arguments_of, bounded_name, number, octets, total
from windrow.cql.dialect import CQL, Let, MaxValueBytes
from windrow.cql.select_text import parse_expression
from windrow.errors import BindError

_MAY_GROW = re.compile(r"\b(?:" + "|".join(sorted(BOUNDED)) + r")\b|\|\|", re.IGNORECASE)


@dataclass(frozen=True)
class Guarded:
    """An expression with its guards, and how many of its calls are NULL by the bound. None: it needs no guard."""

    tree: exp.Expr
    oversized: exp.Expr | None


def guarded(tree: exp.Expr, most: int | None) -> Guarded:
    """The expression with guards by a bound of `most` bytes; None: by the variable of that name."""
    return _Writer(MaxValueBytes() if most is None else number(most), most or 0).write(tree.copy())


def check_bounds(select: exp.Expr, text: str, most: int) -> None:
    """Raise BindError for a call that is too large whatever the data, and for what cannot be guarded."""
    check_sizes(select, text, most)
    try:
        guarded(select, most)
    except RecursionError:
        raise BindError("the query is nested too deeply", remedy="Write fewer expressions inside each other.") from None


@lru_cache(maxsize=20_000)
def bounded_sql(sql: str, most: int) -> str:
    """Spark SQL with guards; the same text if it needs none."""
    found = _guarded_sql(sql, most)
    return sql if found is None or found.oversized is None else found.tree.sql(dialect=CQL)


@lru_cache(maxsize=20_000)
def oversized_sql(sql: str, most: int) -> str | None:
    """How many calls in the expression are NULL by the bound, as Spark SQL; None: it needs no guard."""
    found = _guarded_sql(sql, most)
    return None if found is None or found.oversized is None else found.oversized.sql(dialect=CQL)


def _guarded_sql(sql: str, most: int) -> Guarded | None:
    return guarded(parse_expression(sql), most) if _MAY_GROW.search(sql) else None


@dataclass
class _Writer:
    most: exp.Expr
    most_bytes: int
    variables: int = 0

    def write(self, node: exp.Expr) -> Guarded:
        if self._is_special(node):
            return self._special(node)
        return Guarded(node, self._children(node))

    def _is_special(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Case | exp.If):
            return True
        return bounded_name(node) is not None and not never_grows(node, self.most_bytes)

    def _special(self, node: exp.Expr) -> Guarded:
        if isinstance(node, exp.Case):
            return self._case(node)
        return self._if(node) if isinstance(node, exp.If) else self._call(node, bounded_name(node) or "")

    def _children(self, node: exp.Expr) -> exp.Expr | None:
        """Guard what is below the node, and return the count. Long chains of operators need no recursion."""
        counts, left = list[exp.Expr | None](), [node]
        while left:
            for child in list(left.pop().iter_expressions()):
                if self._is_special(child):
                    parent, key, index = child.parent, child.arg_key, child.index
                    found = self._special(child)
                    assert parent is not None and key is not None
                    parent.set(key, found.tree, index)
                    counts.append(found.oversized)
                else:
                    left.append(child)
        return _total(counts)

    def _replaced(self, node: exp.Expr, key: str) -> exp.Expr | None:
        """Guard one argument of the node, and return the count."""
        value = node.args.get(key)
        if not isinstance(value, exp.Expr):
            return None
        found = self.write(value)
        node.set(key, found.tree)
        return found.oversized

    def _if(self, node: exp.Expr) -> Guarded:
        tested, then, otherwise = (self._replaced(node, key) for key in ("this", "true", "false"))
        if then is None and otherwise is None:
            return Guarded(node, tested)
        chosen = exp.If(this=node.this.copy(), true=_or_zero(then), false=_or_zero(otherwise))
        return Guarded(node, _total([tested, chosen]))

    def _case(self, node: exp.Expr) -> Guarded:
        """The count of a CASE is a CASE: a branch counts where it is taken."""
        tested = [self._replaced(node, "this")]
        chosen = []
        for branch in node.args["ifs"]:
            tested.append(self._replaced(branch, "this"))
            chosen.append(self._replaced(branch, "true"))
        default = self._replaced(node, "default")
        if default is None and not any(chosen):
            return Guarded(node, _total(tested))
        branches = [
            exp.If(this=branch.this.copy(), true=_or_zero(count))
            for branch, count in zip(node.args["ifs"], chosen, strict=True)
        ]
        subject = None if node.this is None else node.this.copy()
        return Guarded(node, _total([*tested, exp.Case(this=subject, ifs=branches, default=_or_zero(default))]))

    def _call(self, node: exp.Expr, name: str) -> Guarded:
        if isinstance(node, exp.DPipe):
            node = exp.Concat(expressions=arguments_of(node), safe=True, coalesce=False)
        within = self._children(node)
        lets: list[tuple[str, exp.Expr]] = []
        if within is not None:
            node = self._let(node, lets) if name in AFTERWARDS else self._with_variables(node, lets)
        test = self._too_large(node, name)
        counted = _within(lets, exp.If(this=test.copy(), true=number(1), false=number(0)))
        bounded = _within(lets, exp.If(this=test, true=exp.Null(), false=node))
        return Guarded(bounded, _total([within, counted]))

    def _too_large(self, node: exp.Expr, name: str) -> exp.Expr:
        sizes = [octets(node)] if name in AFTERWARDS else SIZES[name](arguments_of(node))
        tests = [exp.GT(this=size, expression=self.most.copy()) for size in sizes]
        return tests[0] if len(tests) == 1 else exp.And(this=tests[0], expression=tests[1])

    def _let(self, value: exp.Expr, lets: list[tuple[str, exp.Expr]]) -> exp.Expr:
        """A new variable with this value."""
        self.variables += 1
        lets.append((f"__v{self.variables}", value))
        return exp.column(lets[-1][0])

    def _with_variables(self, node: exp.Expr, lets: list[tuple[str, exp.Expr]]) -> exp.Expr:
        """The call with a variable for each argument that is computed."""
        arguments = arguments_of(node)
        plain = (exp.Column, exp.Literal)
        node.set("expressions", [a if isinstance(a, plain) else self._let(a, lets) for a in arguments])
        return node


def _within(lets: Sequence[tuple[str, exp.Expr]], made: exp.Expr) -> exp.Expr:
    for alias, value in reversed(lets):
        made = Let(this=value.copy(), alias=alias, expression=made)
    return made


def _or_zero(count: exp.Expr | None) -> exp.Expr:
    return number(0) if count is None else count


def _total(counts: Iterable[exp.Expr | None]) -> exp.Expr | None:
    found = [count for count in counts if count is not None]
    return total(found) if found else None
