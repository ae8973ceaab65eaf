"""Rules for aggregates over one window (Golab's dissertation, section 8.3.1)."""

from __future__ import annotations

from windrow.optimizer.sharing.synopsis_plans import why_apart
from windrow.optimizer.sharing.uses import Applicant, SynopsisUse
from windrow.optimizer.sharing.verdicts import YES, Verdict, refusal
from windrow.optimizer.synopsis_kinds import SynopsisKind

UNUSED = refusal("no other query uses the synopsis")
BASIC = refusal("the synopsis is a basic interval synopsis")
NOT_BASIC = refusal("the synopsis is not a basic interval synopsis")
_NO_AVG = refusal("the query has no AVG")
_NO_PARTS = refusal("other queries do not read both the sum and the count of an AVG")
_NO_PARTS_ALIKE = refusal("other queries over this window length do not read both the sum and the count of an AVG")


def ss1(query: Applicant, use: SynopsisUse) -> Verdict:
    """The query needs the same cells, and the cuts can be united. If its window is longer than what is kept, the
    synopsis is extended (section 8.2)."""
    if not use.others(query):
        return UNUSED
    why = why_apart(query.need, use.plan, use.cut_factor)
    return YES if why is None else refusal(why)


def cs1(query: Applicant, use: SynopsisUse) -> Verdict:
    if use.kind is SynopsisKind.BASIC_INTERVAL:
        return BASIC
    if any(name != query.name and Applicant(name, plan).length == query.length for name, plan in use.plan.queries):
        return YES
    return refusal("no other query has a window of this length")


def cs2(query: Applicant, use: SynopsisUse) -> Verdict:
    if use.kind is not SynopsisKind.BASIC_INTERVAL:
        return NOT_BASIC
    return YES if use.others(query) else UNUSED


def ss2(query: Applicant, use: SynopsisUse) -> Verdict:
    """All accumulators of a synopsis are updated at the same times."""
    return _divides(query, use, None, _NO_PARTS)


def cs3(query: Applicant, use: SynopsisUse) -> Verdict:
    return _divides(query, use, query.length, _NO_PARTS_ALIKE)


def _divides(query: Applicant, use: SynopsisUse, length: int | None, otherwise: Verdict) -> Verdict:
    """Whether other queries read the sum and the count of an AVG, over windows of this length (None: any length)."""
    averages = [call for call in query.plan.input.aggregates if call.function == "AVG"]
    if not averages:
        return _NO_AVG
    read = any(all(use.is_read(part.id, query, length) for _, part in call.parts) for call in averages)
    return YES if read else otherwise
