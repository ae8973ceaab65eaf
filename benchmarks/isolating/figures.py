"""Figures 7.8 to 7.14 of Golab's dissertation: which settings and measures they show, as tables and charts.

7.13b is no figure of the text: it counts staleness from the commit of an update (`metrics.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plots import line_chart

from isolating.metrics import Metrics, mean_of
from isolating.workload import Setting

FOUR = ("Serial", "WS", "LWS", "TTU")
ABORTING = ("LWS", "LWS, oldest first", "TTU")

Trials = Mapping[str, Sequence[Metrics]]
"""The trials of each scheduler in one setting; trial i has the same workload for all."""


@dataclass(frozen=True)
class Figure:
    """One figure. `is_mixed`: with one-time queries."""

    number: str
    title: str
    measure: str
    unit: str
    is_mixed: bool = False
    schedulers: tuple[str, ...] = FOUR
    scale: float = 1.0

    def value(self, trials: Trials, scheduler: str) -> float | None:
        found: float | None = getattr(mean_of(trials[scheduler]), self.measure)
        return None if found is None else found * self.scale


FIGURES = (
    Figure("7.8", "Transactions aborted", "aborted_share", "%", False, ABORTING, 100.0),
    Figure("7.9", "Staleness of periodic queries", "staleness_s", "s"),
    Figure("7.10", "Inter-execution time of periodic queries", "inter_execution_s", "s"),
    Figure("7.11", "Throughput", "throughput", "transactions/s"),
    Figure("7.12", "Response time of one-time queries", "response_s", "s", True),
    Figure("7.13", "Staleness of one-time queries", "one_time_staleness_s", "s", True),
    Figure(
        "7.13b", "Staleness of one-time queries, from the commit of the update", "one_time_since_commit_s", "s", True
    ),
    Figure("7.14", "Staleness of periodic queries beside one-time queries", "staleness_s", "s", True),
)


def lines_of(figure: Figure, runs: Mapping[Setting, Trials]) -> list[str]:
    """The figure as a table: a row for each t and n, a column for each scheduler."""
    head = f"{'t':>5} {'n':>5} {'queries':>8}" + "".join(f"{name:>19}" for name in figure.schedulers)
    out = [f"Figure {figure.number}: {figure.title}, {figure.unit}", head]
    for setting, trials in _shown(figure, runs).items():
        cells = [_told(figure.value(trials, name)) for name in figure.schedulers]
        row = f"{setting.pane_s:>3g} s {setting.panes:>5} {setting.queries:>8}"
        out.append(row + "".join(f"{cell:>19}" for cell in cells))
    return out


def values_of(figure: Figure, runs: Mapping[Setting, Trials]) -> dict[str, dict[int, dict[str, float | None]]]:
    """The figure as numbers: by t, n and scheduler."""
    found: dict[str, dict[int, dict[str, float | None]]] = {}
    for setting, trials in _shown(figure, runs).items():
        cells = {name: _rounded(figure.value(trials, name)) for name in figure.schedulers}
        found.setdefault(f"t={setting.pane_s:g}", {})[setting.panes] = cells
    return found


def plot(figure: Figure, runs: Mapping[Setting, Trials], directory: Path) -> None:
    """Write a chart for each t that has something to show."""
    directory.mkdir(parents=True, exist_ok=True)
    by_pane: dict[float, dict[Setting, Trials]] = {}
    for setting, trials in _shown(figure, runs).items():
        by_pane.setdefault(setting.pane_s, {})[setting] = trials
    for pane_s, some in by_pane.items():
        series = {
            name: [
                (one.panes, value) for one, trials in some.items() if (value := figure.value(trials, name)) is not None
            ]
            for name in figure.schedulers
        }
        path = directory / f"concurrency_{figure.number.replace('.', '_')}_t{pane_s:g}.svg"
        title = f"Figure {figure.number}: {figure.title}, t = {pane_s:g} s"
        if any(series.values()):
            line_chart(path, title, "panes in the window", figure.unit, series)


def _shown(figure: Figure, runs: Mapping[Setting, Trials]) -> dict[Setting, Trials]:
    return {one: runs[one] for one in runs if (one.one_time_every_s is not None) == figure.is_mixed}


def _told(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 100 else f"{value:.1f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
