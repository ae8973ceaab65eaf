"""Rules for aggregates over joins of windows (Golab's dissertation, section 8.3.2). No plan joins windows yet."""

from __future__ import annotations

from windrow.optimizer.sharing.uses import Applicant, SynopsisUse
from windrow.optimizer.sharing.verdicts import Verdict, refusal

NO_JOIN = refusal("no query joins windows")


def ss3(query: Applicant, use: SynopsisUse) -> Verdict:
    return NO_JOIN


def cs4(query: Applicant, use: SynopsisUse) -> Verdict:
    return NO_JOIN


def cs5(query: Applicant, use: SynopsisUse) -> Verdict:
    return NO_JOIN
