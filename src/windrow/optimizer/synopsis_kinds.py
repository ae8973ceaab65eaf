"""The kinds of synopses over windows (Golab's dissertation, section 2.3.4; landmark intervals: Arasu and Widom)."""

from __future__ import annotations

from enum import Enum


class SynopsisKind(Enum):
    RUNNING = "running"
    INTERVAL = "interval"
    BASIC_INTERVAL = "basic interval"
    LANDMARK = "landmark interval"
