"""Algorithm 7 of Golab's dissertation: latest-window serializability (LWS), with the reads of a query in storage order.

A window update is committed at once. A query that has read a pane which the update takes out of its window is aborted,
or re-scans. In the algorithm that is pane (j + n − n_k) mod n for update T_j and a window of n_k panes; here, any pane
that begins before the window does.
"""

from __future__ import annotations

from typing import ClassVar

from windrow.schedulers.history import Isolation
from windrow.schedulers.transactions.machine import TransactionMachine


class LatestScheduler(TransactionMachine):
    """Its `order` says what the "next operation" of line 17 is: any order gives LWS (Theorem 7.3)."""

    isolation: ClassVar[Isolation] = Isolation.LATEST
