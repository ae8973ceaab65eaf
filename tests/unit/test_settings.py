"""Settings accept their own defaults and refuse bad values with a remedy."""

from __future__ import annotations

import pytest

from windrow.errors import SettingError
from windrow.optimizer.sharing.rules import RULES
from windrow.settings import SHARING_RULES, SPECS, Settings, parse_value, spec_of

DAY_US = 86_400_000_000


@pytest.mark.parametrize("name", SPECS)
def test_defaults_are_accepted(name: str) -> None:
    spec = SPECS[name]
    assert Settings()[name] == spec.default
    assert spec.parse(str(spec.default)) == spec.default
    assert spec.doc.endswith(".")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("preaggregate", "SPARK", "spark"),
        ("gather_bytes", "64 MB", 64 << 20),
        ("gather_bytes", "1gb", 1 << 30),
        ("gather_bytes", "512", 512),
        ("gather_bytes", " 2 kB ", 2048),
        ("max_future", "off", "off"),
        ("max_future", " OFF ", "off"),
        ("max_future", "2 days", 2 * DAY_US),
        ("max_future", "1 week", 7 * DAY_US),
        ("trigger_interval", "0 seconds", 0),
        ("trigger_interval", "250 milliseconds", 250_000),
        ("retained_answers", "1_000", 1000),
        ("cut_factor", "1", 1),
        ("disabled_rules", " cs8 , SS4,", "SS4, CS8"),
        ("disabled_rules", "share_synopses,derive_accumulators,share_answers", "SS1, SS4, CS8"),
        ("driver_memory", "512 MB", 512 << 20),
        ("disabled_rules", "", ""),
    ],
)
def test_parse_value(name: str, text: str, value: object) -> None:
    assert parse_value(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "takes"),
    [
        ("preaggregate", "sparc", "'auto', 'spark', 'driver'"),
        ("gather_bytes", "0", "a size"),
        ("gather_bytes", "5 XB", "a size"),
        ("gather_bytes", "-5", "a size"),
        ("max_future", "soon", "or 'off'"),
        ("max_future", "1 month", "or 'off'"),
        ("restart_backoff", "off", "an interval"),
        ("retained_answers", "-1", "from 0 to"),
        ("retained_answers", "many", "from 0 to"),
        ("cut_factor", "0", "from 1 to"),
        ("cut_factor", "1.5", "from 1 to"),
        ("synopsis_blocks", "3", "from 4 to"),
        ("driver_memory", "511 MB", "not below 512 MB"),
        ("disabled_rules", "SS1, CS9", "SS1, SS2, SS3, SS4, CS1, CS2, CS3, CS4, CS5, CS6, CS7, CS8"),
    ],
)
def test_bad_value(name: str, text: str, takes: str) -> None:
    with pytest.raises(SettingError) as raised:
        parse_value(name, text)
    assert f"'{text}' is not a value for '{name}'" in str(raised.value)
    assert raised.value.remedy and takes in raised.value.remedy


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("gather_bytes", "64 MB", "64 MB"),
        ("gather_bytes", "1536 MB", "1536 MB"),
        ("gather_bytes", "2048 kb", "2 MB"),
        ("gather_bytes", "513", "513 B"),
        ("max_future", "24 hours", "1 day"),
        ("max_future", "2 weeks", "14 days"),
        ("max_future", "off", "off"),
        ("trigger_interval", "0 minutes", "0 seconds"),
        ("trigger_interval", "1500 milliseconds", "1500 milliseconds"),
        ("trigger_interval", "7 microseconds", "7 microseconds"),
        ("retained_answers", "1_000", "1000"),
    ],
)
def test_value_text(name: str, text: str, shown: str) -> None:
    value = Settings().with_text(name, text)[name]
    assert str(value) == shown
    assert parse_value(name, shown) == value


def test_disabled_rules_are_those_of_the_table() -> None:
    assert set(SHARING_RULES) == {one.name for one in RULES} and len(SHARING_RULES) == len(RULES)
    assert Settings().rules_off == frozenset()
    assert Settings().with_text("disabled_rules", "CS8,SS4").rules_off == {"SS4", "CS8"}


def test_unknown_setting() -> None:
    with pytest.raises(SettingError, match="no setting 'preagregate'") as raised:
        spec_of("preagregate")
    assert raised.value.remedy and "Did you mean 'preaggregate'?" in raised.value.remedy
    with pytest.raises(SettingError) as raised:
        spec_of("zzz")
    assert raised.value.remedy == "SHOW SETTINGS lists them all."


def test_settings_are_immutable() -> None:
    plain = Settings()
    changed = plain.with_text("CUT_FACTOR", "9").with_text("preaggregate", "driver")
    assert (plain.integer("cut_factor"), changed.integer("cut_factor")) == (4, 9)
    assert changed.text("preaggregate") == "driver" and changed.text("empty_windows") == "skip"
    assert changed.with_text("cut_factor", "2").integer("cut_factor") == 2
    assert set(changed.values) == {"cut_factor", "preaggregate"}


def test_unknown_name_raises_key_error() -> None:
    with pytest.raises(KeyError):
        Settings()["no_such_setting"]


def test_bad_value_changes_nothing() -> None:
    settings = Settings().with_text("cut_factor", "9")
    with pytest.raises(SettingError):
        settings.with_text("cut_factor", "none")
    assert settings.integer("cut_factor") == 9
