"""Late sharing (Golab's dissertation, section 8.4.5): when a task is late, other late tasks of its group join it."""

from __future__ import annotations

from windrow.schedulers.queries.hybrid import HybridScheduler


class LateScheduler(HybridScheduler):
    """Hybrid scheduling that shares the late set; conservative scheduling that does, with the periods `as_asked`."""

    def _reach(self, slack: int) -> int | None:
        return max(slack, -1)
