"""The sharing rules of 001_3bbbc8a20ffc7252.txt, 8.3 and 8.4, as data: what each says, of what, and whether it holds.

A rule is asked about some synopses and some queries, the last of which is the new one. State-sharing rules (SS) say
that queries may use the same synopses, computation-sharing rules (CS) that they may be executed together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windrow.optimizer.covers import Candidate, Relevant, relevant
from windrow.optimizer.shapes import OVER_JOINS, OVER_WINDOWS, Asked, Shape, SynopsisKind

Shapes = Sequence[Shape]
Queries = Sequence[Asked]
Holds = Callable[[Shapes, Queries], bool]


@dataclass(frozen=True)
class Rule:
    """`applies` are the kinds of synopses that it speaks of; none: it is of answers alone."""

    name: str
    section: str
    text: str
    applies: frozenset[SynopsisKind]
    condition: Holds

    def holds(self, shapes: Shapes, queries: Queries) -> bool:
        """Whether the rule lets these queries share these synopses, or be executed together on them."""
        if not queries or any(shape.kind not in self.applies for shape in shapes):
            return False
        return (bool(shapes) or not self.applies) and self.condition(shapes, queries)


def _one_for_all(shapes: Shapes, queries: Queries) -> bool:
    """One synopsis has the data of all of them, of the same tuples, over windows that it reaches (SS1, SS3)."""
    (shape,) = shapes if len(shapes) == 1 else (None,)
    return shape is not None and all(
        query.data <= shape.data and query.predicate == shape.predicate and shape.reaches(query.windows)
        for query in queries
    )


def _same_windows(queries: Queries) -> bool:
    return len({query.windows for query in queries}) == 1


def _one_for_the_same_windows(shapes: Shapes, queries: Queries) -> bool:
    return _one_for_all(shapes, queries) and _same_windows(queries)


def _are_aligned(shapes: Shapes) -> bool:
    return all(shapes[0].aligned(shape) for shape in shapes)


def _sums_and_counts(shapes: Shapes, queries: Queries) -> bool:
    """The new query's data are spread over aligned synopses, and each reaches its window."""
    new = queries[-1]
    stored = frozenset[str]().union(*(shape.data for shape in shapes))
    alike = all(shape.predicate == new.predicate and shape.reaches(new.windows) for shape in shapes)
    return len(new.data) > 1 and new.data <= stored and alike and _are_aligned(shapes)


def _sum_count_and_average(shapes: Shapes, queries: Queries) -> bool:
    """The others have computed, over the same window, all that the new one divides."""
    *others, new = queries
    computed = frozenset[str]().union(*(query.data for query in others if query.predicate == new.predicate))
    return _sums_and_counts(shapes, queries) and new.data <= computed and _same_windows(queries)


def relevant_shapes(shapes: Shapes, new: Asked) -> Relevant[Shape] | None:
    """The relevant synopses of a new query among those that store its data, are aligned, and are long enough."""
    fitting = [shape for shape in shapes if new.data <= shape.data and shape.reaches(new.windows)]
    if not fitting or not _are_aligned(fitting):
        return None
    candidates = [Candidate(shape.predicate, shape) for shape in fitting]
    return relevant(new.predicate, candidates, new.is_sensitive, new.is_subtractable)


def _are_relevant(shapes: Shapes, queries: Queries) -> bool:
    return relevant_shapes(shapes, queries[-1]) is not None


def _are_relevant_and_alike(shapes: Shapes, queries: Queries) -> bool:
    return _are_relevant(shapes, queries) and _same_windows(queries)


def shares_answers(known: Asked, new: Asked) -> bool:
    """Every answer of the new query is one of the known query's (CS8)."""
    alike = known.text == new.text and known.windows == new.windows and known.predicate == new.predicate
    return alike and new.slide % known.slide == 0 and (new.phase - known.phase) % known.slide == 0


def _answers_of_another(shapes: Shapes, queries: Queries) -> bool:
    *others, new = queries
    return any(shares_answers(known, new) for known in others)


_SINGLY_PROBED = frozenset({SynopsisKind.RUNNING, SynopsisKind.INTERVAL})
_JOINS_SINGLY_PROBED = frozenset({SynopsisKind.RJ, SynopsisKind.IJ})
_BASIC, _BASIC_JOIN = frozenset({SynopsisKind.BASIC_INTERVAL}), frozenset({SynopsisKind.BIJ})

SHARING_RULES: tuple[Rule, ...] = (
    Rule(
        "SS1",
        "8.3.1",
        "A synopsis with parameters s and b serves queries that need the same data per interval, over windows of "
        "n intervals, 1 ≤ n ≤ b.",
        OVER_WINDOWS,
        _one_for_all,
    ),
    Rule(
        "CS1",
        "8.3.1",
        "Queries that share a running or interval synopsis are executed together if their windows are of one length.",
        _SINGLY_PROBED,
        _one_for_the_same_windows,
    ),
    Rule("CS2", "8.3.1", "All queries on one basic interval synopsis are computed together.", _BASIC, _one_for_all),
    Rule(
        "SS2",
        "8.3.1",
        "A synopsis of sums and one of counts serve AVG if they are updated at the same times and both reach its "
        "window. (The text has it of running synopses; alignment is what it needs.)",
        OVER_WINDOWS,
        _sums_and_counts,
    ),
    Rule(
        "CS3",
        "8.3.1",
        "If SS2 holds, SUM, COUNT and AVG over the same window length are executed together: AVG divides.",
        OVER_WINDOWS,
        _sum_count_and_average,
    ),
    Rule(
        "SS3",
        "8.3.2",
        "A generalized join synopsis with parameters b, s and g serves joins of windows of n intervals each, "
        "1 ≤ n ≤ b, and of n1 and n2 intervals, b - g ≤ n1, n2 ≤ b.",
        OVER_JOINS,
        _one_for_all,
    ),
    Rule(
        "CS4",
        "8.3.2",
        "Queries on one generalized IJ or RJ synopsis are computed together if they join windows of the same lengths.",
        _JOINS_SINGLY_PROBED,
        _one_for_the_same_windows,
    ),
    Rule(
        "CS5", "8.3.2", "All queries on one generalized BIJ synopsis are computed together.", _BASIC_JOIN, _one_for_all
    ),
    Rule(
        "SS4",
        "8.3.3",
        "A new query uses a set of relevant synopses (a cover of its predicate, or a supercover of which the rest is "
        "taken off) at least as long as its window.",
        frozenset(SynopsisKind),
        _are_relevant,
    ),
    Rule(
        "CS6",
        "8.3.3",
        "If these are running, interval, RJ or IJ, the candidate queries and then the new one are executed together "
        "if their windows are of the same lengths.",
        _SINGLY_PROBED | _JOINS_SINGLY_PROBED,
        _are_relevant_and_alike,
    ),
    Rule(
        "CS7",
        "8.3.3",
        "If these are basic interval or BIJ, the candidate queries and then the new one are executed together.",
        _BASIC | _BASIC_JOIN,
        _are_relevant,
    ),
    Rule(
        "CS8",
        "8.4",
        "A query identical to a registered one but for a longer period shares its output.",
        frozenset(),
        _answers_of_another,
    ),
)


def rule(name: str) -> Rule:
    return next(one for one in SHARING_RULES if one.name == name)
