"""Algorithm 11 of Golab's dissertation: when a task is late, the late and the pending tasks of its group join it.

Line 13 there chooses any of them. Here it is the latest: any other might be pending while others are late.
"""

from __future__ import annotations

from windrow.schedulers.queries.hybrid import HybridScheduler


class LatePendingScheduler(HybridScheduler):
    """Hybrid scheduling that shares the late and the pending set; conservative, with the periods `as_asked`."""

    def _reach(self, slack: int) -> int | None:
        return max(slack, 0)
