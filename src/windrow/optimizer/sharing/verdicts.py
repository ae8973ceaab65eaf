"""The verdict of a sharing rule: yes, or no with a reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """`reason` says why not, in words; it is empty if the rule holds."""

    reason: str = ""

    @property
    def holds(self) -> bool:
        return not self.reason


YES = Verdict()


def refusal(reason: str) -> Verdict:
    return Verdict(reason)
