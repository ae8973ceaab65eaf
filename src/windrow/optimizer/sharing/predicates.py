"""Predicates in disjunctive normal form (Golab's dissertation, section 8.3.3), to compare conditions.

A tuple passes a predicate if it is TRUE. FALSE and NULL are the same here, so only laws of three-valued logic are used
(`p OR NOT p` is not TRUE if p is NULL). A predicate is a set of *terms*; a tuple passes if one term is TRUE. A term is
a set of atoms that must all be TRUE. An atom is `attribute op constant` with a constant of the attribute's own type, so
that constants compare as values do. Any other condition is opaque, and equal only to the same text.

The comparisons are sound: predicates called disjoint or implied are so; what cannot be proved is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from sqlglot import exp, parse_one
from sqlglot.optimizer.normalize import normalize, normalized

from windrow.cql.dialect import CQL
from windrow.cql.functions import COMPARISON_NODES
from windrow.types import SqlType

Columns = tuple[tuple[str, SqlType], ...]
Value = int | float | Decimal | bytes

MOST_TERMS = 32
"""A predicate with more terms becomes one opaque term, an IN with more constants one opaque atom."""

IS_NULL, IS_NOT_NULL = "IS NULL", "IS NOT NULL"
_OPPOSITE = {"=": "<>", "<": ">=", ">": "<=", IS_NULL: IS_NOT_NULL}
_OPPOSITE |= {opposite: op for op, opposite in _OPPOSITE.items()}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class ColumnComparison:
    """`attribute op value`, or a test for NULL (without a value)."""

    attribute: str
    op: str
    value: Value | None = None

    def __post_init__(self) -> None:
        if self.op not in _OPPOSITE:
            raise ValueError(f"not an operation: {self.op}")
        if (self.value is None) != (self.op in (IS_NULL, IS_NOT_NULL)):
            raise ValueError("a comparison has a constant, a test of NULL has none")

    @property
    def negation(self) -> ColumnComparison:
        return ColumnComparison(self.attribute, _OPPOSITE[self.op], self.value)

    def implies(self, other: Atom) -> bool:
        """Whether the other is TRUE wherever this is."""
        if self == other:
            return True
        if not isinstance(other, ColumnComparison) or other.attribute != self.attribute or self.value is None:
            return False
        if other.value is None:
            return other.op == IS_NOT_NULL
        if other.op == "<>":
            return self.excludes(other.negation)
        return self.op != "<>" and _least(self) >= _least(other) and _greatest(self) <= _greatest(other)

    def excludes(self, other: Atom) -> bool:
        """Whether no tuple makes both TRUE."""
        if not isinstance(other, ColumnComparison) or other.attribute != self.attribute:
            return False
        if IS_NULL in (self.op, other.op):
            return self.op != other.op
        if self.value is None or other.value is None:
            return False
        if "<>" in (self.op, other.op):
            return self == other.negation
        return _least(self) > _greatest(other) or _least(other) > _greatest(self)

    def __str__(self) -> str:
        shown = self.value.decode() if isinstance(self.value, bytes) else self.value
        return f"{self.attribute} {self.op}" + (
            "" if self.value is None else f" {shown!r}" if isinstance(shown, str) else f" {shown}"
        )


_Bound = tuple[int] | tuple[int, Value, int]
"""A position among values: below all (−1), above all (1), or (0, value, −1, 0 or 1) just below, at or just above it."""


def _least(atom: ColumnComparison) -> _Bound:
    """The lower bound of the values that satisfy a comparison. NaN is above every number, as in Spark."""
    assert atom.value is not None
    if atom.op in ("<", "<="):
        return (-1,)
    return 0, atom.value, 1 if atom.op == ">" else 0


def _greatest(atom: ColumnComparison) -> _Bound:
    assert atom.value is not None
    if atom.op in (">", ">="):
        return (1,)
    return 0, atom.value, -1 if atom.op == "<" else 0


@dataclass(frozen=True)
class OpaqueCondition:
    """A condition that is compared by its text alone."""

    sql: str
    negated: bool = False

    def implies(self, other: Atom) -> bool:
        return self == other

    def excludes(self, other: Atom) -> bool:
        """A condition and its negation are never both TRUE."""
        return isinstance(other, OpaqueCondition) and other.sql == self.sql and other.negated != self.negated

    def __str__(self) -> str:
        return f"NOT ({self.sql})" if self.negated else self.sql


Atom = ColumnComparison | OpaqueCondition
Term = frozenset[Atom]


def implied(term: Term, other: Term) -> bool:
    """Whether every tuple that passes `term` passes `other`."""
    return all(any(atom.implies(wanted) for atom in term) for wanted in other)


def exclusive(term: Term, other: Term) -> bool:
    """Whether no tuple passes both terms."""
    return any(a.excludes(b) for a in term for b in other)


@dataclass(frozen=True)
class Predicate:
    """A set of terms. `of` drops terms that are contradictory or imply another. No tuple passes a predicate without
    terms; every tuple passes an empty term."""

    terms: frozenset[Term]

    @classmethod
    def of(cls, terms: Iterable[Iterable[Atom]]) -> Predicate:
        possible = {_reduced(frozenset(term)) for term in terms}
        distinct = sorted((t for t in possible if not exclusive(t, t)), key=lambda t: (len(t), term_text(t)))
        kept: list[Term] = []
        for term in distinct:
            if not any(implied(term, other) for other in kept):
                kept = [other for other in kept if not implied(other, term)] + [term]
        return cls(frozenset(kept))

    def excludes(self, other: Predicate) -> bool:
        """Whether no tuple passes both."""
        return all(exclusive(a, b) for a in self.terms for b in other.terms)

    def __str__(self) -> str:
        if not self.terms:
            return "false"
        return " OR ".join(sorted(term_text(term) for term in self.terms))


TRUE, FALSE = Predicate(frozenset({frozenset()})), Predicate(frozenset())


def term_text(term: Term) -> str:
    """A term as text, with sorted atoms."""
    return " AND ".join(sorted(map(str, term))) or "true"


def _reduced(term: Term) -> Term:
    """The term without atoms that other atoms imply."""
    kept: list[Atom] = []
    for atom in sorted(term, key=str):
        if not any(other.implies(atom) for other in kept):
            kept = [other for other in kept if not atom.implies(other)] + [atom]
    return frozenset(kept)


# -- from text -------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def reader_of(columns: Columns) -> Callable[[str | None], Predicate]:
    """Reads the predicate of a bound condition (Spark SQL over the stream's columns); None, no condition, is TRUE.
    Cached: thousands of queries have the same few conditions."""
    types = dict(columns)

    @lru_cache(maxsize=4096)
    def read(condition: str | None) -> Predicate:
        return _read(condition, types)

    return read


def _read(condition: str | None, types: dict[str, SqlType]) -> Predicate:
    if condition is None:
        return TRUE
    tree = _signed(parse_one(condition, dialect=CQL), True, types)
    whole = Predicate.of([[OpaqueCondition(condition)]])
    try:
        tree = normalize(tree, dnf=True).copy()  # `normalized` looks at the parents too, so it needs a root
    except RecursionError:
        return whole
    if not normalized(tree, dnf=True):
        return whole
    terms = [_atoms(term, types) for term in _parts(tree, exp.Or)]
    return whole if len(terms) > MOST_TERMS else Predicate.of(term for term in terms if term is not None)


def _signed(tree: exp.Expr, positive: bool, types: dict[str, SqlType]) -> exp.Expr:
    """The condition with every NOT moved to an atom, and IN and BETWEEN split into comparisons if possible."""
    tree = tree.unnest()
    if isinstance(tree, exp.Not):
        return _signed(tree.this, not positive, types)
    if isinstance(tree, exp.And | exp.Or):
        is_and = isinstance(tree, exp.And) == positive
        parts = [_signed(part, positive, types) for part in (tree.left, tree.right)]
        return (exp.And if is_and else exp.Or)(this=exp.paren(parts[0]), expression=exp.paren(parts[1]))
    parted = _parted(tree, types)
    if parted is not None:
        return _signed(parted, positive, types)
    return tree.copy() if positive else exp.Not(this=exp.paren(tree.copy()))


def _parted(tree: exp.Expr, types: dict[str, SqlType]) -> exp.Expr | None:
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        low, high = (
            exp.GTE(this=tree.this, expression=tree.args["low"]),
            exp.LTE(this=tree.this, expression=tree.args["high"]),
        )
        return exp.And(this=low.copy(), expression=high.copy())
    if isinstance(tree, exp.In) and 0 < len(tree.expressions) <= MOST_TERMS:
        # Spark casts all constants of an IN to one type, so they are comparisons only if each has the column's type.
        equals = [exp.EQ(this=tree.this.copy(), expression=constant.copy()) for constant in tree.expressions]
        if all(isinstance(_atom(one, types), ColumnComparison) for one in equals):
            return exp.or_(*equals, copy=False)
    return None


def _parts(tree: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    tree = tree.unnest()
    return (
        [part for side in (tree.left, tree.right) for part in _parts(side, kind)] if isinstance(tree, kind) else [tree]
    )


def _atoms(term: exp.Expr, types: dict[str, SqlType]) -> list[Atom] | None:
    """The atoms of a term; None if it is never TRUE."""
    atoms: list[Atom] = []
    for part in _parts(term, exp.And):
        inner = part.this.unnest() if isinstance(part, exp.Not) else part
        if isinstance(inner, exp.Null):
            return None
        if isinstance(inner, exp.Boolean):
            if bool(inner.this) == isinstance(part, exp.Not):
                return None
            continue
        atom = _atom(inner, types)
        if inner is not part:
            atom = _whole(atom.negation) if isinstance(atom, ColumnComparison) else OpaqueCondition(atom.sql, True)
        atoms.append(atom)
    return atoms


def _atom(tree: exp.Expr, types: dict[str, SqlType]) -> Atom:
    if isinstance(tree, exp.Is) and isinstance(tree.this, exp.Column) and isinstance(tree.expression, exp.Null):
        return ColumnComparison(tree.this.name, IS_NULL)
    op = COMPARISON_NODES.get(type(tree))
    if op is not None:
        left, right = tree.this.unnest(), tree.expression.unnest()
        if isinstance(right, exp.Column):
            left, right, op = right, left, _MIRRORED[op]
        if isinstance(left, exp.Column) and left.name in types:
            value = _constant(right, types[left.name])
            if value is not None:
                return _whole(ColumnComparison(left.name, op, value))
    return OpaqueCondition(tree.sql(dialect=CQL))


def _whole(atom: ColumnComparison) -> ColumnComparison:
    """A comparison with an integer in closed form: x > 3 becomes x >= 4."""
    if isinstance(atom.value, int) and atom.op in ("<", ">"):
        above = atom.op == ">"
        return ColumnComparison(atom.attribute, ">=" if above else "<=", atom.value + (1 if above else -1))
    return atom


def _constant(tree: exp.Expr, kind: SqlType) -> Value | None:
    """A literal as a value of the column's type, if Spark compares the two exactly; else None.

    FLOAT is excluded: the type of the comparison depends on the literal.
    """
    negative = isinstance(tree, exp.Neg)
    literal = tree.this if negative else tree
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return literal.this.encode() if kind.name == "STRING" and not negative else None
    text = ("-" if negative else "") + literal.this
    if kind.is_integer:
        return int(text) if literal.this.isdigit() else None
    if kind.name == "DOUBLE":
        return float(text) + 0.0
    if kind.is_decimal and "e" not in text.lower():
        return _decimal(Decimal(text), kind)
    return None


def _decimal(value: Decimal, kind: SqlType) -> Decimal | None:
    """The value, or None if Spark would round it: Spark widens both sides to hold all digits, up to 38."""
    precision, scale = kind.decimal
    mine = max(0, -int(value.as_tuple().exponent))
    whole = max(len(value.as_tuple().digits) - mine, 1)
    return value if max(precision - scale, whole) + max(scale, mine) <= 38 else None
