"""How a one-time query is answered is chosen over a pinned version, which is released if that fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from windrow.cql import parse_one
from windrow.engine.ask.onetime.choosing import OneTimeQuestion, choose, choose_over_tables
from windrow.engine.isolation.interface import PinnedVersion
from windrow.errors import UnsupportedError
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


VIEW, TABLE, ANSWERS = (SimpleNamespace(is_view=i == 0, is_table=i == 1) for i in range(3))


@pytest.mark.parametrize(
    ("text", "taken", "settings", "where", "why"),
    [
        ("SELECT * FROM c", ANSWERS, {}, "view", "as it is"),
        ("SELECT n FROM c", VIEW, {}, "driver", "it reads 24 bytes, at most 67,108,864"),
        ("SELECT n FROM c", TABLE, {"driver_ask_bytes": "23 B"}, "spark", "it reads 24 bytes, more than 23"),
        ("SELECT n FROM c", VIEW, {"ask_home": "spark"}, "spark", "ask_home = 'spark'"),
        ("SELECT n FROM c", ANSWERS, {}, "spark", "views of continuous queries and tables alone"),
        ("SELECT n + 1 FROM c", VIEW, {}, "spark", "no alias"),
        ("SELECT n AS x FROM c", TABLE, {}, "spark", "the driver cannot evaluate it: RANK"),
    ],
)
def test_how_tables_are_read(text: str, taken: Any, settings: dict[str, str], where: str, why: str) -> None:
    plan: Any = UnsupportedError("RANK", remedy="") if text.endswith("AS x FROM c") else object()
    version = PinnedVersion(None, tables={"c": pa.table({"n": [1, 2, 3]})})
    select: Any = parse_one(text)
    known = Settings()
    for name, value in settings.items():
        known = known.with_text(name, value)
    chosen = choose_over_tables(select.select, {"c": taken}, lambda: plan, version, known)
    assert chosen.answered_from == where
    assert why in chosen.reason
    assert (chosen.read is plan) is (where == "driver")
