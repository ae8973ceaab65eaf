"""What a continuous query depends on besides its text is kept with it."""

from __future__ import annotations

import json

import pytest

from windrow.engine.plans.planning import PlanChoices
from windrow.errors import SettingError
from windrow.settings import Settings


def test_the_strategy_is_kept() -> None:
    choices = PlanChoices.of(Settings().with_text("execution", "negative"))
    assert choices.execution == "negative"
    assert PlanChoices.restored(json.loads(json.dumps(choices.saved()))) == choices


def test_queries_from_before_there_were_strategies_have_the_default() -> None:
    saved = PlanChoices().saved()
    del saved["execution"]
    assert PlanChoices.restored(saved).execution == "upa"


def test_other_strategies_are_refused() -> None:
    with pytest.raises(SettingError, match="'lazy' is not a value"):
        Settings().with_text("execution", "lazy")
