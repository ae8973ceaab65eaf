"""What a sharing rule answers: yes, or no with a reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """`reason`: why not, in words; empty where the rule says yes."""

    reason: str = ""

    @property
    def holds(self) -> bool:
        return not self.reason


YES = Verdict()


def no(reason: str) -> Verdict:
    return Verdict(reason)
