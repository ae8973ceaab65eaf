"""Settings: every name, its type, its default and its meaning, in one visible table.

A setting is changed by `SET name = value` or by `windrow.open(settings={...})`, is kept in the
catalog, and takes effect from the next micro-batch (those marked *at open*: when the state
directory is next opened).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from windrow.errors import SettingError

Value = str | int | bool

SHARING_RULES = ("SS1", "SS2", "SS3", "SS4", "CS1", "CS2", "CS3", "CS4", "CS5", "CS6", "CS7", "CS8")
"""The rules that `disabled_rules` may name."""

_FORMER_RULES = {"SHARE_SYNOPSES": "SS1", "DERIVE_ACCUMULATORS": "SS4", "SHARE_ANSWERS": "CS8"}
"""Names that state directories may still hold."""

LEAST_DRIVER_MEMORY = 512 << 20


@dataclass(frozen=True)
class SettingSpec:
    """One setting. `parse` turns text into a value or raises ValueError saying what it takes."""

    name: str
    default: Value
    doc: str
    parse: Callable[[str], Value]


def _choice(*allowed: str) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        if text.lower() not in allowed:
            raise ValueError("one of " + ", ".join(f"'{a}'" for a in allowed))
        return text.lower()

    return parse


def _integer(least: int, most: int) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        try:
            value = int(text.replace("_", ""))
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return value

    return parse


_SIZES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


class Size(int):
    """Bytes, that print as SET takes them: in the largest unit that is whole."""

    def __str__(self) -> str:
        unit = next(u for u in ("gb", "mb", "kb", "b") if int(self) % _SIZES[u] == 0)
        return f"{int(self) // _SIZES[unit]} {unit.upper()}"


def _size(least: int = 1) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        match = re.fullmatch(r"\s*([0-9]+)\s*([a-zA-Z]*)\s*", text)
        value = int(match[1]) * _SIZES.get(match[2].lower(), 0) if match else 0
        if value < least:
            raise ValueError(
                "a size such as '64 MB'" if least == 1 else f"a size such as '1 GB', not below {Size(least)}"
            )
        return Size(value)

    return parse


_UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


class Interval(int):
    """Microseconds, that print as SET takes them: in the largest unit, up to days, that is whole."""

    def __str__(self) -> str:
        if self == 0:
            return "0 seconds"
        units = ("day", "hour", "minute", "second", "millisecond", "microsecond")
        unit = next(u for u in units if int(self) % _UNITS_US[u] == 0)
        count = int(self) // _UNITS_US[unit]
        return f"{count} {unit}{'' if count == 1 else 's'}"


def _interval(text: str) -> Value:
    match = re.fullmatch(r"\s*([0-9]+)\s*([a-z]+?)s?\s*", text.lower())
    if not match or match[2] not in _UNITS_US:
        raise ValueError("an interval such as '5 seconds'")
    return Interval(int(match[1]) * _UNITS_US[match[2]])


def _interval_or_off(text: str) -> Value:
    if text.strip().lower() == "off":
        return "off"
    try:
        return _interval(text)
    except ValueError:
        raise ValueError("an interval such as '1 day', or 'off'") from None


def _rules(text: str) -> Value:
    given = {part.strip().upper() for part in text.split(",") if part.strip()}
    names = {_FORMER_RULES.get(name, name) for name in given}
    if not names <= set(SHARING_RULES):
        raise ValueError("names separated by commas, of: " + ", ".join(SHARING_RULES))
    return ", ".join(name for name in SHARING_RULES if name in names)


def _fraction(text: str) -> Value:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value < 1:
        raise ValueError("a number from 0.01 to below 1, such as '0.4'")
    return text.strip()


_TABLE = (
    SettingSpec(
        "preaggregate",
        "auto",
        "Where a micro-batch is grouped: by Spark's group-by (`spark`), by gathering the needed columns as "
        "Arrow and grouping them in NumPy (`driver`), or whichever the measured reduction favours (`auto`).",
        _choice("auto", "spark", "driver"),
    ),
    SettingSpec(
        "gather_bytes",
        Size(64 << 20),
        "The most that `driver` pre-aggregation may gather per micro-batch; a larger one is grouped by Spark.",
        _size(),
    ),
    SettingSpec(
        "empty_windows",
        "skip",
        "`emit`: ungrouped queries also answer windows without a tuple, from the stream's first tuple on.",
        _choice("skip", "emit"),
    ),
    SettingSpec(
        "window_evaluation",
        "window_ids",
        "How queries created from now on are evaluated: from panes and partial aggregates (`window_ids`), or by "
        "keeping the tuples of every extent and going through them for each window (`buffer`, for comparison).",
        _choice("window_ids", "buffer"),
    ),
    SettingSpec(
        "slack_meaning",
        "consistent",
        "What becomes of a late tuple: it counts in no window (`consistent`), or in those that have not been answered "
        "when it comes (`generous`). Streams with LATE REVISE go by that clause instead.",
        _choice("consistent", "generous"),
    ),
    SettingSpec(
        "max_future",
        Interval(_UNITS_US["day"]),
        "How far ahead of the wall clock a timestamp may be; a tuple beyond goes to dead letters. `off` allows any.",
        _interval_or_off,
    ),
    SettingSpec(
        "heartbeat",
        "off",
        "How long a running stream may be silent, by the wall clock. After that the frontiers of its timestamps follow "
        "the clock at this distance, as punctuations: a tuple that is older when it comes is late.",
        _interval_or_off,
    ),
    SettingSpec(
        "retained_answers",
        100_000,
        "Answer rows kept per query for `q.answers()` (whole windows; the latest window is always kept). "
        "0 keeps none beyond the latest.",
        _integer(0, 10**12),
    ),
    SettingSpec(
        "dead_letters_per_batch",
        1_000,
        "Dead letters kept with their record per micro-batch; beyond that they are counted only.",
        _integer(0, 1_000_000),
    ),
    SettingSpec(
        "retained_dead_letters",
        10_000,
        "Dead letters kept per stream, the newest; older ones are counted only.",
        _integer(0, 100_000_000),
    ),
    SettingSpec(
        "cut_factor",
        4,
        "A query joins a shared synopsis only if that makes the panes at most this many times as many as "
        "its own or the synopsis's panes were; else it gets a synopsis of its own.",
        _integer(1, 1_000_000),
    ),
    SettingSpec(
        "synopsis_blocks",
        24,
        "Blocks that a synopsis may have on disk before the small ones are compacted.",
        _integer(4, 10_000),
    ),
    SettingSpec(
        "driver_synopsis_bytes",
        Size(512 << 20),
        "The most that a synopsis may take in the driver, with what it needs to answer; a larger one moves to Spark "
        "until it is smaller than a quarter of this.",
        _size(),
    ),
    SettingSpec(
        "synopsis_home",
        "auto",
        "Where synopses live: in the driver's memory (`driver`), in blocks that Spark tasks read (`spark`; those that "
        "cannot go there stay in the driver), or by their size (`auto`). Takes effect with the next micro-batch.",
        _choice("auto", "driver", "spark"),
    ),
    SettingSpec(
        "synopsis",
        "auto",
        "How windows are found in the panes of a synopsis: by walking over them (`basic interval`), from base "
        "intervals (`interval`), running sums (`running`; where sums cannot be subtracted exactly, base intervals) or "
        "landmark intervals (`landmark interval`; running sums where these are exact, and base intervals where more "
        "than 16 widths of windows are asked for), or by what the measured updates and lookups make cheapest "
        "(`auto`). Answers stay the same.",
        _choice("auto", "basic interval", "interval", "running", "landmark interval"),
    ),
    SettingSpec(
        "index_bytes",
        Size(512 << 20),
        "The most that base intervals, landmark intervals and running sums may take, beside the cells of a stream's "
        "synopses; and the most that the SubStream Filters of one synopsis may.",
        _size(),
    ),
    SettingSpec(
        "holistic",
        "auto",
        "How MEDIAN, QUANTILE and COUNT(DISTINCT) are found: rolled up from how often each value occurs (`roll up`), "
        "selected from sorted base intervals wherever they can be (`selection`), or whichever is expected to cost "
        "less (`auto`). Answers stay the same.",
        _choice("auto", "roll up", "selection"),
    ),
    SettingSpec(
        "shuffle_partitions",
        0,
        "Partitions of the group-by of a micro-batch; 0 means one per core.",
        _integer(0, 100_000),
    ),
    SettingSpec(
        "trigger_interval",
        Interval(0),
        "Time between micro-batches under `start()`; 0 starts the next one when the last one ends.",
        _interval,
    ),
    SettingSpec(
        "bytes_per_trigger",
        Size(128 << 20),
        "Bytes of files that one micro-batch of a file source takes, unless the stream's own OPTIONS say.",
        _size(),
    ),
    SettingSpec(
        "restart_backoff",
        Interval(60_000_000),
        "The longest pause before a streaming query that died is started again (the first is one second).",
        _interval,
    ),
    SettingSpec(
        "substream_filters",
        "auto",
        "Whether HAVING with a bound on COUNT, SUM, MAX or MIN is answered through a SubStream Filter, which names the "
        "groups that may pass: where it is expected to cost less (`auto`), wherever it can be (`on`), or never "
        "(`off`). Answers stay the same.",
        _choice("auto", "on", "off"),
    ),
    SettingSpec(
        "filter_epsilon",
        "0.4",
        "How far a SubStream Filter over COUNT and SUM may be mistaken: for `> v` it names no group below v·(1 − ε). "
        "A smaller ε takes more memory and more work per cell, and leaves less to be compared afterwards.",
        _fraction,
    ),
    SettingSpec(
        "approximate_having",
        "off",
        "`on`: where a SubStream Filter is used, a bound of HAVING on COUNT or SUM is not compared once more. Every "
        "group that meets it is in the answer, with exact values, and perhaps some that come within ε of it. Not on "
        "streams with LATE REVISE.",
        _choice("off", "on"),
    ),
    SettingSpec(
        "disabled_rules",
        "",
        "Sharing rules that are switched off, separated by commas. Answers stay the same. SS rules decide where "
        "queries created from now on are placed, CS rules what is computed together from the next micro-batch on. "
        f"The rules: {', '.join(f'`{rule}`' for rule in SHARING_RULES)}.",
        _rules,
    ),
    SettingSpec(
        "driver_memory",
        Size(1 << 30),
        "Heap of the Spark JVM that Windrow starts, at least 512 MB (*at open*; a session of your own keeps its heap).",
        _size(LEAST_DRIVER_MEMORY),
    ),
)

SPECS: Mapping[str, SettingSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})


def spec_of(name: str) -> SettingSpec:
    """The setting of that name, or an error with a near one."""
    spec = SPECS.get(name.lower())
    if spec is None:
        near = difflib.get_close_matches(name.lower(), SPECS, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise SettingError(f"there is no setting '{name}'", remedy=f"{hint}SHOW SETTINGS lists them all.")
    return spec


def parse_value(name: str, text: str) -> Value:
    spec = spec_of(name)
    try:
        return spec.parse(text)
    except ValueError as error:
        raise SettingError(f"'{text}' is not a value for '{spec.name}'", remedy=f"It takes {error}.") from None


@dataclass(frozen=True)
class Settings:
    """An immutable set of values; what is not set has its default."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def with_text(self, name: str, text: str) -> Settings:
        value = parse_value(name, text)
        return Settings({**self.values, spec_of(name).name: value})

    def __getitem__(self, name: str) -> Any:
        spec = SPECS[name]
        return self.values.get(name, spec.default)

    def integer(self, name: str) -> int:
        return int(self[name])

    def text(self, name: str) -> str:
        return str(self[name])

    @property
    def rules_off(self) -> frozenset[str]:
        """The sharing rules that are switched off."""
        return frozenset(self.text("disabled_rules").replace(",", " ").split())
