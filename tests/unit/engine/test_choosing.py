"""How a one-time query is answered is chosen over a pinned version, which is released if that fails."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from windrow.engine.ask.onetime.choosing import OneTimeQuestion, choose
from windrow.engine.isolation.interface import PinnedVersion
from windrow.settings import Settings


class SizelessRead:
    """Pins, and cannot say how much it reads."""

    wishes = ()
    asked: Any = None
    released = 0

    @property
    def pinning(self) -> Any:
        raise KeyError("dropped")

    def pin(self) -> PinnedVersion:
        return PinnedVersion(0, release=self.release)

    def release(self) -> None:
        self.released += 1


def test_a_version_is_released_if_nothing_is_chosen() -> None:
    read: Any = SizelessRead()
    made: Any = None
    with pytest.raises(KeyError, match="dropped"):
        choose(OneTimeQuestion(exp.Select(), "", None, read, made, made), Settings())
    assert read.released == 1
