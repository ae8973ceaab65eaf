"""Accumulators that a synopsis need not keep, because kept ones cover them (SS4: Golab's dissertation, section 8.3.3).

An accumulator with its condition is what the dissertation calls a synopsis with a predicate. An accumulator of a new
query is *derived* when it is read: merged from a cover, or a supercover minus a cover of the surplus. So the query sees
the past of the kept accumulators, and nothing more is kept for it. Sums of doubles are added but never subtracted,
since subtraction is not exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windrow.optimizer.sharing.covers import Candidate, relevant
from windrow.optimizer.sharing.predicates import Columns, reader_of
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.nodes import WindowAggregate
from windrow.types import POINT_MIN

SUBTRACTABLE = frozenset({Kind.COUNT, Kind.SUM_INT, Kind.SUM_LONG, Kind.SUM_DECIMAL})
"""Exact under addition and subtraction, whatever the order."""

DUPLICATE_SENSITIVE = SUBTRACTABLE | {Kind.SUM_DOUBLE, Kind.MOMENTS, Kind.KLL, Kind.FREQUENT}
DUPLICATE_INSENSITIVE = frozenset({Kind.LEAST, Kind.GREATEST, Kind.HLL})
DERIVABLE = DUPLICATE_SENSITIVE | DUPLICATE_INSENSITIVE


_HOW = {
    Kind.LEAST: "the least of",
    Kind.GREATEST: "the greatest of",
    **dict.fromkeys((Kind.HLL, Kind.KLL, Kind.FREQUENT), "merged from"),
}


@dataclass(frozen=True)
class Derivation:
    """An accumulator computed from others of its kind and argument: all `added` merged, minus the `subtracted`.

    With `is_sign`, only whether the value is positive matters. The `added` may then overlap: the value is too large,
    but its sign is right.
    """

    accumulator: Accumulator
    added: tuple[Accumulator, ...]
    subtracted: tuple[Accumulator, ...] = ()
    is_sign: bool = False

    def __post_init__(self) -> None:
        mine = (self.accumulator.kind, self.accumulator.arg, self.accumulator.type)
        if not self.added or any((a.kind, a.arg, a.type) != mine for a in self.bases):
            raise ValueError("an accumulator is derived only from others of its kind and argument")
        if self.subtracted and self.accumulator.kind not in SUBTRACTABLE:
            raise ValueError(f"a {self.accumulator.kind.value} cannot be subtracted")

    @property
    def bases(self) -> tuple[Accumulator, ...]:
        return self.added + self.subtracted

    def __str__(self) -> str:
        """The derivation in words, by the conditions: `count: added from a = 1, a = 2`."""
        how = _HOW.get(self.accumulator.kind, "added from")
        text = f"{name_of(self.accumulator)}: {how} {_conditions(self.added)}"
        return text + (f" less {_conditions(self.subtracted)}" if self.subtracted else "")


_NAMES = {
    Kind.COUNT: "count",
    Kind.LEAST: "min",
    Kind.GREATEST: "max",
    Kind.MOMENTS: "moments",
    Kind.HLL: "HLL",
    Kind.KLL: "KLL",
    Kind.FREQUENT: "frequent items",
}


def name_of(accumulator: Accumulator) -> str:
    """The aggregate of an accumulator in words, without its condition."""
    return f"{_NAMES.get(accumulator.kind, 'sum')}({(accumulator.arg or '*').replace('`', '')})"


def _conditions(accumulators: Iterable[Accumulator]) -> str:
    return ", ".join(f"({(a.condition or 'true').replace('`', '')})" for a in accumulators)


def derive(
    wanted: Accumulator, kept: Iterable[Accumulator], columns: Columns, is_sign: bool = False
) -> Derivation | None:
    """The derivation of an accumulator from kept ones, or None if they do not cover it."""
    if wanted.kind not in DERIVABLE:
        return None
    read = reader_of(columns)
    candidates = [Candidate(read(a.condition), a) for a in _alike(wanted, kept)]
    if not candidates:
        return None
    predicate, sensitive = read(wanted.condition), wanted.kind in DUPLICATE_SENSITIVE
    found = relevant(predicate, candidates, sensitive, wanted.kind in SUBTRACTABLE)
    if found is None and is_sign:
        found = relevant(predicate, candidates, False, False)
        return None if found is None else Derivation(wanted, found.added, is_sign=True)
    return None if found is None else Derivation(wanted, found.added, found.subtracted)


def only_signs(aggregate: WindowAggregate) -> frozenset[Accumulator]:
    """The counts whose sign alone a query reads: the presence of groups, and of values for MIN and MAX."""
    extremes = [call for call in aggregate.aggregates if call.function in ("MIN", "MAX")]
    signs = {aggregate.presence, *(call.part("n") for call in extremes)}
    exact = {part for call in aggregate.aggregates if call not in extremes for _, part in call.parts}
    return frozenset(signs - exact - set(aggregate.counts))


def derivations_of(
    aggregate: WindowAggregate,
    kept: Iterable[Accumulator],
    since: Mapping[str, int | None],
    columns: Columns,
) -> tuple[Derivation, ...]:
    """What a new query derives on a synopsis: accumulators that are not kept, or not for as long as those that cover
    them. `since` has the point from which each is kept (None: always), by id. The counts that determine windows are
    never derived."""
    kept, signs, found = list(kept), only_signs(aggregate), []
    for wanted in aggregate.accumulators:
        if wanted in aggregate.counts or (wanted.id in since and since[wanted.id] is None):
            continue
        others = _alike(wanted, kept)
        if wanted.id in since:
            others = [a for a in others if _from(since[a.id]) < _from(since[wanted.id])]
        derivation = derive(wanted, others, columns, wanted in signs)
        found += [] if derivation is None else [derivation]
    return tuple(found)


def _alike(wanted: Accumulator, kept: Iterable[Accumulator]) -> list[Accumulator]:
    """The accumulators of the same kind and argument under other conditions."""
    kind, arg, type_, condition = wanted.kind, wanted.arg, wanted.type, wanted.condition
    return [a for a in kept if a.kind is kind and a.arg == arg and a.condition != condition and a.type == type_]


def read_of(aggregate: WindowAggregate, derived: Sequence[Derivation]) -> tuple[Accumulator, ...]:
    """The accumulators that must be kept for a query: those it reads directly, and the bases of the derived ones."""
    by = {one.accumulator: one.bases for one in derived}
    return tuple(dict.fromkeys(base for a in aggregate.accumulators for base in by.get(a, (a,))))


def _from(point: int | None) -> int:
    return POINT_MIN if point is None else point
