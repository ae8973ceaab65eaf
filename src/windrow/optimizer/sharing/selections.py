"""Rules for aggregates with selections (Golab's dissertation, section 8.3.3): covers of predicates.

An accumulator with its condition is what the dissertation calls a synopsis with a predicate.
"""

from __future__ import annotations

from windrow.optimizer.sharing.over_windows import BASIC, NOT_BASIC
from windrow.optimizer.sharing.uses import Applicant, SynopsisUse
from windrow.optimizer.sharing.verdicts import YES, Verdict, refusal
from windrow.optimizer.synopsis_kinds import SynopsisKind

_NO_COVER = refusal("the conditions of other queries do not cover its own")


def ss4(query: Applicant, use: SynopsisUse) -> Verdict:
    """An accumulator of the query is derived from others that have been kept for longer."""
    return YES if use.derived(query) else _NO_COVER


def cs6(query: Applicant, use: SynopsisUse) -> Verdict:
    if use.kind is SynopsisKind.BASIC_INTERVAL:
        return BASIC
    bases = {a.id for one in use.derived(query) for a in one.bases}
    if not bases:
        return _NO_COVER
    alike = all(use.is_read(a, query, query.length) for a in bases)
    return YES if alike else refusal("the queries that it derives from have windows of other lengths")


def cs7(query: Applicant, use: SynopsisUse) -> Verdict:
    if use.kind is not SynopsisKind.BASIC_INTERVAL:
        return NOT_BASIC
    return ss4(query, use)
