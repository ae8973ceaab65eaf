"""Settings: the name, type, default and meaning of each, in one table.

`SET name = value` or `windrow.open(settings={...})` changes a setting. The catalog keeps it. It takes effect with the
next micro-batch, or, if marked *at open*, when the state directory is next opened.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from windrow.errors import SettingError
from windrow.types import UNITS_US

Value = str | int | bool

SHARING_RULES = ("SS1", "SS2", "SS3", "SS4", "CS1", "CS2", "CS3", "CS4", "CS5", "CS6", "CS7", "CS8")
"""The sharing rules that `disabled_rules` may name."""

SHARE_JOINS, SHARE_SUBPLANS = "share_joins", "share_subplans"

PLAN_RULES = (
    *("push_selections", "compute_on_arrival", "place_negation", "match_once", "merge_joins"),
    *("nest_joins", "push_distinct", "order_joins", "push_projections", "reuse_distinct", SHARE_JOINS, SHARE_SUBPLANS),
)
"""The rules for continuous plans that `disabled_rules` may name."""

_FORMER_RULES = {"SHARE_SYNOPSES": "SS1", "DERIVE_ACCUMULATORS": "SS4", "SHARE_ANSWERS": "CS8"}
"""Names that state directories may still hold."""

LEAST_DRIVER_MEMORY = 512 << 20


@dataclass(frozen=True)
class SettingSpec:
    """One setting. `parse` turns text into a value, or raises a ValueError that says what the setting accepts."""

    name: str
    default: Value
    doc: str
    parse: Callable[[str], Value]


@dataclass(frozen=True)
class Choice:
    """Parses the value of a setting that takes one of a few words."""

    allowed: tuple[str, ...]

    def __call__(self, text: str) -> Value:
        if text.lower() not in self.allowed:
            raise ValueError("one of " + ", ".join(f"'{a}'" for a in self.allowed))
        return text.lower()


def _choice(*allowed: str) -> Choice:
    return Choice(allowed)


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
    """A number of bytes. `str` gives text that SET accepts: a whole number of the largest possible unit."""

    def __str__(self) -> str:
        unit = next(u for u in ("gb", "mb", "kb", "b") if int(self) % _SIZES[u] == 0)
        return f"{int(self) // _SIZES[unit]} {unit.upper()}"


def _size(least: int = 1) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        match = re.fullmatch(r"\s*([0-9]+)\s*([a-zA-Z]*)\s*", text)
        value = int(match[1]) * _SIZES.get(match[2].lower(), -1) if match else -1
        if value < least:
            raise ValueError(
                "a size such as '64 MB'" if least <= 1 else f"a size such as '1 GB', not below {Size(least)}"
            )
        return Size(value)

    return parse


_UNITS_US = {unit.lower(): size_us for unit, size_us in UNITS_US.items()}


class Interval(int):
    """Microseconds. `str` gives text that SET accepts: a whole number of the largest possible unit up to days."""

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
    every = (*SHARING_RULES, *PLAN_RULES)
    spelled = {name.upper(): name for name in every} | _FORMER_RULES
    given = {part.strip().upper() for part in text.split(",") if part.strip()}
    if not given <= set(spelled):
        raise ValueError("names separated by commas, of: " + ", ".join(every))
    names = {spelled[name] for name in given}
    return ", ".join(name for name in every if name in names)


def _factor_or_off(text: str) -> Value:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if text.strip().lower() == "off":
        return "off"
    if not value > 1:
        raise ValueError("a factor above 1, such as '10', or 'off'")
    return text.strip()


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
        "The most that `driver` pre-aggregation may gather per micro-batch; Spark groups a larger one.",
        _size(),
    ),
    SettingSpec(
        "empty_windows",
        "skip",
        "`emit`: ungrouped queries also answer empty windows, starting at the stream's first tuple. Joins and "
        "sub-queries with SLIDE ignore this setting: they answer the windows that hold a tuple of any input.",
        _choice("skip", "emit"),
    ),
    SettingSpec(
        "window_evaluation",
        "window_ids",
        "How new queries are evaluated: from partial aggregates (`window_ids`), or by keeping all tuples and scanning "
        "them for each window (`buffer`, for comparison).",
        _choice("window_ids", "buffer"),
    ),
    SettingSpec(
        "slack_meaning",
        "consistent",
        "Which windows count a late tuple: none (`consistent`), or those that are not answered when it arrives "
        "(`generous`). Streams with LATE REVISE ignore this setting.",
        _choice("consistent", "generous"),
    ),
    SettingSpec(
        "max_future",
        Interval(_UNITS_US["day"]),
        "How far ahead of the wall clock a timestamp may be; a tuple beyond that is a dead letter. `off` allows any.",
        _interval_or_off,
    ),
    SettingSpec(
        "heartbeat",
        "off",
        "How long a running stream may be silent by the wall clock. After that, punctuations move the frontiers of its "
        "timestamps to the clock less this interval; a tuple that arrives below its frontier is late.",
        _interval_or_off,
    ),
    SettingSpec(
        "max_value_bytes",
        Size(1 << 20),
        "The most bytes of a text or binary value that a function makes, such as REPEAT or CONCAT. A larger one is "
        "NULL and counted among the query's `overflows`; a constant that is always larger is an error. Takes effect "
        "with the next micro-batch.",
        _size(),
    ),
    SettingSpec(
        "max_empty_windows",
        10_000_000,
        "The most windows that a query answers at once because of `empty_windows = 'emit'`. If a gap in the stream "
        "holds more of them, the query is suspended.",
        _integer(1, 10**12),
    ),
    SettingSpec(
        "retained_answers",
        100_000,
        "Answer rows kept per query for `q.answers()` (whole windows, of a join with SLIDE whole commits; the latest "
        "window is always kept). 0 keeps none beyond the latest.",
        _integer(0, 10**12),
    ),
    SettingSpec(
        "retained_changes",
        100_000,
        "Changes kept per continuous query for `q.changes()`.",
        _integer(0, 10**12),
    ),
    SettingSpec(
        "explicit_expiry",
        "off",
        "'on': a continuous query created from then on also reports a row that expires by a '-', for consumers that "
        "ignore `exp`.",
        _choice("off", "on"),
    ),
    SettingSpec(
        "execution",
        "upa",
        "How a continuous query created from then on keeps and expires rows, for experiments: by the update patterns "
        "of its plan (`upa`), by a negative tuple for every row that expires (`negative`), or by scanning what "
        "operators keep (`direct`; refused where rows may be withdrawn). Its answers stay the same.",
        _choice("upa", "negative", "direct"),
    ),
    SettingSpec(
        "tick_rows",
        1_000_000,
        "How many new tuples a continuous query processes in one commit before it begins another: the commit ends with "
        "the tick to which the last of so many belongs, and has all tuples of that tick. With RSTREAM and SLIDE, about "
        "the most rows that it reports in one.",
        _integer(1, 10**12),
    ),
    SettingSpec(
        "plan_home",
        "auto",
        "Where the ticks of continuous queries are processed: in the driver (`driver`), by Spark tasks (`spark`), or "
        "by the size of what a tick reads (`auto`). A query moves between two ticks; its changes stay the same.",
        _choice("auto", "driver", "spark"),
    ),
    SettingSpec(
        "driver_plan_bytes",
        Size(256 << 20),
        "The most that a tick of a continuous query may read in the driver: the state of its operators, the windows "
        "that it joins, and tables that it reads for the first time. A larger query moves to Spark, and back when it "
        "is smaller than a quarter of this.",
        _size(),
    ),
    SettingSpec(
        "ask_home",
        "auto",
        "Where one-time queries over windows are evaluated: in the driver (`driver`), by Spark (`spark`), or by the "
        "size of what they read (`auto`). What only one of the two can evaluate goes there. Answers stay the same.",
        _choice("auto", "driver", "spark"),
    ),
    SettingSpec(
        "driver_ask_bytes",
        Size(64 << 20),
        "The most that a one-time query may read of windows and tables in the driver; larger ones are evaluated by "
        "Spark.",
        _size(),
    ),
    SettingSpec(
        "broadcast_table_bytes",
        Size(8 << 20),
        "A table with at most this many bytes of rows is held in memory, in the driver and by every Spark task that "
        "reads it. A larger one stays in a file that they map, with its rows in the order of the buckets of their "
        "keys. Takes effect when a table changes.",
        _size(0),
    ),
    SettingSpec(
        "dead_letters_per_batch",
        1_000,
        "Dead letters kept with their record per micro-batch; the rest are only counted.",
        _integer(0, 1_000_000),
    ),
    SettingSpec(
        "retained_dead_letters",
        10_000,
        "The newest dead letters kept per stream; older ones are only counted.",
        _integer(0, 100_000_000),
    ),
    SettingSpec(
        "cut_factor",
        4,
        "A new query joins the shared state of others only if this multiplies the window edges of that state by at "
        "most this factor; otherwise it keeps state of its own.",
        _integer(1, 1_000_000),
    ),
    SettingSpec(
        "synopsis_blocks",
        24,
        "How many files one shared state may have on disk before the small ones are merged.",
        _integer(4, 10_000),
    ),
    SettingSpec(
        "driver_synopsis_bytes",
        Size(512 << 20),
        "The most memory that one shared state may use in the driver, including what it needs to answer. A larger one "
        "moves to Spark, and back when it is smaller than a quarter of this.",
        _size(),
    ),
    SettingSpec(
        "synopsis_home",
        "auto",
        "Where shared state is kept: in the driver's memory (`driver`), in files that Spark tasks read (`spark`; state "
        "that cannot move there stays in the driver), or by its size (`auto`). Takes effect with the next micro-batch.",
        _choice("auto", "driver", "spark"),
    ),
    SettingSpec(
        "synopsis",
        "auto",
        "How windows are computed from the panes of shared state: by a pass over them (`basic interval`), from base "
        "intervals (`interval`), from running sums (`running`; base intervals if sums cannot be subtracted exactly), "
        "from landmark intervals (`landmark interval`; running sums if these are exact, base intervals if queries "
        "need more than 16 window widths), or the cheapest of these by the measured updates and lookups (`auto`). "
        "Answers stay the same.",
        _choice("auto", "basic interval", "interval", "running", "landmark interval"),
    ),
    SettingSpec(
        "index_bytes",
        Size(512 << 20),
        "The most memory for base intervals, landmark intervals and running sums, in addition to the shared state of a "
        "stream itself; also the most for the SubStream Filters of one shared state.",
        _size(),
    ),
    SettingSpec(
        "holistic",
        "auto",
        "How MEDIAN, QUANTILE and COUNT(DISTINCT) are computed: rolled up from the count of each value (`roll up`), "
        "selected from sorted base intervals wherever possible (`selection`), or whichever is expected to cost "
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
        "Bytes of files that one micro-batch of a file source reads, unless the stream's OPTIONS set a limit.",
        _size(),
    ),
    SettingSpec(
        "sink_timeout",
        Interval(30_000_000),
        "How long a call of a sink or a subscriber may take. After that the answers of its query wait in the state "
        "directory until the call has ended, and other queries go on. `off` waits for ever.",
        _interval_or_off,
    ),
    SettingSpec(
        "restart_backoff",
        Interval(60_000_000),
        "The longest pause before a failed streaming query is restarted (the first pause is one second).",
        _interval,
    ),
    SettingSpec(
        "substream_filters",
        "auto",
        "Whether a SubStream Filter finds the groups that may pass a HAVING bound on COUNT, SUM, MAX or MIN: where it "
        "is expected to cost less (`auto`), wherever possible (`on`), or never (`off`). Answers stay the same.",
        _choice("auto", "on", "off"),
    ),
    SettingSpec(
        "filter_epsilon",
        "0.4",
        "The error ε of a SubStream Filter over COUNT and SUM: for `> v` it returns no group below v·(1 − ε). "
        "A smaller ε needs more memory and more work, and leaves fewer groups to compare afterwards.",
        _fraction,
    ),
    SettingSpec(
        "approximate_having",
        "off",
        "`on`: groups that a SubStream Filter returns for a HAVING bound on COUNT or SUM are not compared with the "
        "bound again. The answer has every group that meets the bound, with exact values, and perhaps groups within ε "
        "of it. Not on streams with LATE REVISE.",
        _choice("off", "on"),
    ),
    SettingSpec(
        "reoptimize_drift",
        "off",
        "A continuous query is planned again at a tick when a measured rate, number of distinct values or selectivity "
        "of its streams has changed by this factor since its plan was chosen, or is measured for the first time. "
        "Another plan takes over with the state of the old one; answers stay the same.",
        _factor_or_off,
    ),
    SettingSpec(
        "isolation",
        "latest",
        "What a one-time query over live windows and views sees: every update committed before its answer (`latest`), "
        "the version at its start (`window`), or as `latest` with updates held back while it runs (`serial`). "
        "ISOLATION after a SELECT overrides it.",
        _choice("latest", "window", "serial"),
    ),
    SettingSpec(
        "serial_hold",
        Interval(1_000_000),
        "How long a serial one-time query may hold back what other one-time queries see; deposits and standing queries "
        "never wait. After that its answer is of the version at its start, and says so.",
        _interval,
    ),
    SettingSpec(
        "timeout",
        "off",
        "How long a one-time query may take; then it is cancelled, with an error. TIMEOUT after a SELECT overrides it.",
        _interval_or_off,
    ),
    SettingSpec(
        "max_result_rows",
        10_000_000,
        "The most rows of the answer of a one-time query; a larger one is an error.",
        _integer(1, 10**12),
    ),
    SettingSpec(
        "max_result_bytes",
        Size(1 << 30),
        "The most bytes of the answer of a one-time query; a larger one is an error.",
        _size(),
    ),
    SettingSpec(
        "max_partial_bytes",
        Size(1 << 30),
        "The most memory for what a one-time query keeps of the panes that it has read, and for each intermediate "
        "result of its evaluation in the driver; more is an error.",
        _size(),
    ),
    SettingSpec(
        "disabled_rules",
        "",
        "Rules that are switched off, separated by commas. Answers stay the same. SS rules decide where "
        "queries created from now on are placed, CS rules what is computed together from the next micro-batch on. "
        f"The sharing rules: {', '.join(f'`{rule}`' for rule in SHARING_RULES)}. The rules for the plans of continuous "
        f"queries created from now on: {', '.join(f'`{rule}`' for rule in PLAN_RULES)}.",
        _rules,
    ),
    SettingSpec(
        "driver_memory",
        Size(1 << 30),
        "Heap of the Spark JVM that Windrow starts, at least 512 MB (*at open*; your own session keeps its heap).",
        _size(LEAST_DRIVER_MEMORY),
    ),
)

SPECS: Mapping[str, SettingSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})


def spec_of(name: str) -> SettingSpec:
    """The setting of this name; raises SettingError with a similar name if there is none."""
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
    """An immutable set of values; a setting without a value has its default."""

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

    def seconds(self, name: str) -> float | None:
        """An interval in seconds; None if it is off."""
        return None if self[name] == "off" else self.integer(name) / 1e6

    def factor(self, name: str) -> float | None:
        """A number; None if it is off."""
        return None if self[name] == "off" else float(self.text(name))

    @property
    def rules_off(self) -> frozenset[str]:
        """The rules that are switched off."""
        return frozenset(self.text("disabled_rules").replace(",", " ").split())
