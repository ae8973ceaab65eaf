"""The rule for queries that differ only in their period (Golab's dissertation, section 8.4)."""

from __future__ import annotations

from windrow.optimizer.sharing.uses import Applicant, SynopsisUse
from windrow.optimizer.sharing.verdicts import YES, Verdict, refusal

_EARLY = refusal("groups are answered early, which depends on when a query was created")
_NO_LEADER = refusal("no other query has all its answers")


def cs8(query: Applicant, use: SynopsisUse) -> Verdict:
    if use.answers_early:
        return _EARLY
    return _NO_LEADER if use.leader(query) is None else YES
