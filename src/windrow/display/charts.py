"""Answers as charts: a series per number and group, over the ends of their windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timezone
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.display.packages import optional_package
from windrow.errors import BindError
from windrow.types import column_values, is_number, value_text

KINDS = ("line", "step", "points", "bar")
BOUNDS = ("window_start", "window_end", "is_revision")
DAY_US = 86_400_000_000
FIRST_TIME, LAST_TIME = np.datetime64("0001-01-02", "us"), np.datetime64("9999-12-30", "us")
"""matplotlib shows times in between."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Chart:
    """What to draw of a query's answers. `keys` are the columns of groups; `axis` is the column of the windows.
    `is_aligned`: all groups have the same windows, so that a window without a row of a group is a gap."""

    query: str
    keys: tuple[str, ...]
    axis: str
    is_aligned: bool
    kind: str
    groups: int


@dataclass(frozen=True)
class _Group:
    """The rows of a group: the ends of their windows, and its numbers by column."""

    label: str
    ends: Array
    numbers: dict[str, Array]


@dataclass(frozen=True)
class _Series:
    label: str
    x: Array
    y: Array


def draw(chart: Chart, answers: pa.Table, columns: str | Sequence[str] | None, ax: Any) -> Any:
    """Draw the answers and return matplotlib's Axes: `ax`, or new ones."""
    _check(chart)
    names = _columns(chart, answers, columns)
    dates = optional_package("matplotlib.dates", "plot()")
    ends, is_time = _points(answers.column("window_end"))
    groups = _groups(chart, answers, ends, names)
    shown = groups[: chart.groups]
    series = list(_series(chart, shown, np.unique(ends), is_named=ax is not None))
    if ax is None:
        _, ax = optional_package("matplotlib.pyplot", "plot()").subplots()
        ax.set_title(_label(chart.query))
    if is_time:
        series = [_Series(one.label, dates.date2num(one.x), one.y) for one in series]
        ax.xaxis_date(timezone.utc)
        locator = dates.AutoDateLocator(tz=timezone.utc)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=timezone.utc))
    _draw_series(ax, chart.kind, series, _distance(answers, ends, is_time))
    _describe(ax, chart, names, len(shown), len(groups))
    if not answers.num_rows:
        ax.text(0.5, 0.5, "no answers", transform=ax.transAxes, ha="center", va="center")
    return ax


def _check(chart: Chart) -> None:
    if chart.kind not in KINDS:
        raise BindError(f"kind={chart.kind!r} is no kind of chart", remedy=f"It is one of {', '.join(KINDS)}.")
    if not isinstance(chart.groups, int) or isinstance(chart.groups, bool) or chart.groups < 1:
        raise BindError(f"groups={chart.groups!r}: it takes the number of groups to draw, 1 or more")


def _columns(chart: Chart, answers: pa.Table, wanted: str | Sequence[str] | None) -> list[str]:
    """The columns to draw: those wanted, or all numbers that are no group."""
    found = {field.name: is_number(field.type) for field in answers.schema if field.name not in BOUNDS}
    numbers = [name for name, is_one in found.items() if is_one and name not in chart.keys]
    remedy = f"Its numbers: {', '.join(numbers) or 'none'}."
    if wanted is None:
        if not numbers:
            raise BindError(f"query '{chart.query}' has no number to draw", remedy="Add COUNT(*) AS n, for example.")
        return numbers
    by_name = {name.lower(): name for name in found}
    chosen = []
    for name in [wanted] if isinstance(wanted, str) else wanted:
        known = by_name.get(name.lower()) if isinstance(name, str) else None
        if known is None:
            raise BindError(f"query '{chart.query}' has no column {name!r}", remedy=remedy)
        if not found[known]:
            raise BindError(f"column '{known}' of query '{chart.query}' is no number", remedy=remedy)
        chosen.append(known)
    if not chosen:
        raise BindError("there is no column to draw", remedy=remedy)
    return list(dict.fromkeys(chosen))


def _points(ends: pa.ChunkedArray) -> tuple[Array, bool]:
    """Window ends as an array, and whether they are times that matplotlib can show."""
    points = ends.cast(pa.int64()).to_numpy()
    if pa.types.is_timestamp(ends.type):
        times = points.astype("datetime64[us]")
        if not len(times) or (times.min() >= FIRST_TIME and times.max() <= LAST_TIME):
            return times, True
    return points, False


def _groups(chart: Chart, answers: pa.Table, ends: Array, names: Sequence[str]) -> list[_Group]:
    """The groups, the one with the greatest sum of the first number first. Without keys, all rows are one group."""
    numbers = {name: _floats(answers.column(name)) for name in names}
    if not chart.keys:
        return [_Group("", ends, numbers)]
    rows: dict[tuple[tuple[bool, str], ...], list[int]] = {}
    for row, values in enumerate(zip(*(column_values(answers.column(key)) for key in chart.keys), strict=True)):
        rows.setdefault(tuple((value is None, value_text(value)) for value in values), []).append(row)
    found = [
        _Group(", ".join(text for _, text in values), ends[at], {name: y[at] for name, y in numbers.items()})
        for values, at in rows.items()
    ]
    return sorted(found, key=lambda group: -float(np.nansum(np.abs(group.numbers[names[0]]))))


def _floats(column: pa.ChunkedArray) -> Array:
    """A column of numbers; NaN for NULL and for what cannot be drawn."""
    found = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=float)
    return np.where(np.isfinite(found), found, np.nan)


def _series(chart: Chart, groups: Sequence[_Group], every: Array, is_named: bool) -> Iterator[_Series]:
    """A series per group and number. `every` are the ends of all windows; `is_named`: labels have the query's name."""
    for group in groups:
        has_one_row = len(np.unique(group.ends)) == len(group.ends)
        if not has_one_row and chart.kind != "points":
            raise BindError(
                f"query '{chart.query}' has several rows per window that no column tells apart",
                remedy="Select the columns of GROUP BY, too, or draw kind='points'.",
            )
        for name, y in group.numbers.items():
            parts = [chart.query] if is_named else []
            parts += [group.label] if chart.keys else []
            parts += [name] if len(group.numbers) > 1 or not chart.keys else []
            if has_one_row and chart.is_aligned:
                aligned = np.full(len(every), np.nan)
                aligned[np.searchsorted(every, group.ends)] = y
                yield _Series(" · ".join(parts), every, aligned)
            else:
                order = np.argsort(group.ends, kind="stable")
                yield _Series(" · ".join(parts), group.ends[order], y[order])


def _distance(answers: pa.Table, ends: Array, is_time: bool) -> float:
    """The least distance of two windows in units of the x axis, where a day is 1; of a single window its length."""
    every = np.unique(ends.astype(np.int64))
    if len(every) > 1:
        return float(np.diff(every).min()) / (DAY_US if is_time else 1)
    start = answers.column("window_start").cast(pa.int64())[0].as_py() if len(every) and is_time else None
    return 1.0 if start is None else min(1.0, max(1, int(every[0]) - start) / DAY_US)


def _draw_series(ax: Any, kind: str, series: Sequence[_Series], distance: float) -> None:
    width = 0.8 * distance / max(1, len(series))
    for number, one in enumerate(series):
        label = _label(one.label)
        if kind == "bar":
            ax.bar(one.x + (number - (len(series) - 1) / 2) * width, one.y, width, label=label)
        elif kind == "step":
            ax.step(one.x, one.y, where="post", marker=".", markersize=4, label=label)
        else:
            ax.plot(one.x, one.y, marker=".", markersize=4, linestyle="none" if kind == "points" else "-", label=label)


def _describe(ax: Any, chart: Chart, numbers: Sequence[str], shown: int, groups: int) -> None:
    if not ax.get_xlabel():
        ax.set_xlabel(_label(chart.axis))
    if len(numbers) == 1 and not ax.get_ylabel():
        ax.set_ylabel(_label(numbers[0]))
    handles, labels = ax.get_legend_handles_labels()
    if len(handles) > 1 or shown < groups:
        ax.legend(handles, labels, title=f"{shown} of {groups:,} groups" if shown < groups else None)


def _label(text: str) -> str:
    """Text that matplotlib shows as it is: it reads $…$ as a formula and leaves _… out of legends."""
    return (" " + text if text.startswith("_") else text).replace("$", r"\$")
