"""Part (i): the figures by simulation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolating import aims
from isolating.costs import SIZES, Costs, Measurements, measured_scans, rate_for
from isolating.decisions import measured_events
from isolating.figures import FIGURES, FOUR, Trials, lines_of, plot, values_of
from isolating.metrics import metrics_of
from isolating.simulation import MS, Simulation, schedulers
from isolating.workload import KINDS, MOST_DEVIATION, ONE_TIME, PERCENTILES, Setting, Workload
from windrow.schedulers.check_history import check_history
from windrow.schedulers.history import Entry, History

PANES = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
LARGEST = 100
QUERIES_BY_PANE_S = {1.0: 40, 5.0: 100}
MIXED_PANE_S, ONE_TIME_EVERY_S = 5.0, 1.0
GROUP_PANES = LARGEST * 5 / 6
"""The mean of the longest of five windows."""
MEAN_FACTOR = (MOST_DEVIATION - 1 / MOST_DEVIATION) / (2 * math.log(MOST_DEVIATION))

CHECKED = Setting(1.0, 10, 40, 1_000.0, ONE_TIME_EVERY_S)
"""The setting whose histories are checked, and whose decisions are timed."""


@dataclass(frozen=True)
class Size:
    """How much is simulated and measured. `load`: the share of the processor that one-time queries over 100 panes take."""

    panes: tuple[int, ...] = PANES
    trials: int = 5
    rows: tuple[int, ...] = SIZES
    repeats: int = 9
    rate: float | None = None
    load: float = 0.3


QUICK = Size((5, 10), 2, SIZES[:-1], 3)


def run(size: Size, directory: Path, plots: Path | None) -> dict[str, Any]:
    """Measure the costs in a directory, simulate every setting, print the figures; what they show."""
    scans = measured_scans(directory, size.rows, size.repeats)
    costs = _costs(scans)
    _print_costs(scans, costs.event_s)
    rates = rates_for(scans, size)
    for what, rate in rates.items():
        print(f"{what}: {rate:,.0f} packets/s", flush=True)
    is_promised = all(keeps_promise(name, costs) for name in costs.event_s)
    print(f"histories of {', '.join(costs.event_s)}: {'as promised' if is_promised else 'VIOLATED'}\n", flush=True)
    runs: dict[Setting, Trials] = {}
    for setting in settings(size, rates):
        runs[setting] = trials_of(setting, costs, size.trials)
        print(f"simulated {setting}", flush=True)
    print()
    for figure in FIGURES:
        print("\n".join(lines_of(figure, runs)), end="\n\n", flush=True)
        if plots is not None:
            plot(figure, runs, plots)
    found = aims.checked(runs)
    print("\n".join(aims.lines_of(found)), flush=True)
    return {
        "scans_ms": {kind: dict(zip(one.sizes, _ms(one.seconds), strict=True)) for kind, one in scans.items()},
        "event_us": {name: round(one * 1e6, 2) for name, one in costs.event_s.items()},
        "rates": rates,
        "trials": size.trials,
        "histories_ok": is_promised,
        "figures": {figure.number: values_of(figure, runs) for figure in FIGURES},
        "aims": found,
    }


def rates_for(scans: Mapping[str, Measurements], size: Size) -> dict[str, float]:
    """The rate of the figures without one-time queries, and of those with them; a given rate is that of both."""
    if size.rate is not None:
        return {"periodic": size.rate, "mixed": size.rate}
    pane_s, mixed_s = min(QUERIES_BY_PANE_S), size.load * ONE_TIME_EVERY_S / ((LARGEST + 1) / 2)
    return {
        "periodic": rate_for(scans[PERCENTILES], pane_s / GROUP_PANES, pane_s, MEAN_FACTOR),
        "mixed": rate_for(scans[ONE_TIME], mixed_s, MIXED_PANE_S, MEAN_FACTOR),
    }


def settings(size: Size, rates: Mapping[str, float]) -> Iterable[Setting]:
    for pane_s, queries in QUERIES_BY_PANE_S.items():
        for panes in size.panes:
            yield Setting(pane_s, panes, queries, rates["periodic"])
    for panes in size.panes:
        yield Setting(MIXED_PANE_S, panes, QUERIES_BY_PANE_S[MIXED_PANE_S], rates["mixed"], ONE_TIME_EVERY_S)


def trials_of(setting: Setting, costs: Costs, trials: int) -> Trials:
    """The trials of every scheduler; those with one-time queries are of the four of the figures."""
    makes = schedulers(setting.panes, round(setting.pane_s * MS))
    names = makes if setting.one_time_every_s is None else FOUR
    workloads = [Workload.drawn(setting, trial) for trial in range(trials)]
    return {
        name: [metrics_of(Simulation(one, makes[name], costs, costs.event_s[name]).run()) for one in workloads]
        for name in names
    }


def keeps_promise(name: str, costs: Costs) -> bool:
    """Whether every query of a recorded test has the isolation that it claims."""
    entries: list[Entry] = []
    make = schedulers(CHECKED.panes, round(CHECKED.pane_s * MS))[name]
    Simulation(Workload.drawn(CHECKED, 0), make, costs, costs.event_s[name], entries.append).run()
    history = History.of(entries)
    return not check_history(history).violations_of(history.committed_queries)


def _costs(scans: Mapping[str, Measurements]) -> Costs:
    """The array's order of LWS is that of the text; its decisions cost what those in Windrow's own order do."""
    event_s = measured_events(Workload.drawn(CHECKED, 0), schedulers(CHECKED.panes, round(CHECKED.pane_s * MS)), scans)
    event_s["LWS"] = event_s["LWS, oldest first"]
    return Costs({kind: scans[kind] for kind in KINDS}, scans["write"], event_s)


def _print_costs(scans: Mapping[str, Measurements], event_s: Mapping[str, float]) -> None:
    sizes = scans["write"].sizes
    print("Measured, ms" + "".join(f"{f'{rows:,} rows':>16}" for rows in sizes))
    for kind, one in scans.items():
        label = "write of a pane" if kind == "write" else f"scan, {kind}"
        print(f"{label:<18}" + "".join(f"{ms:>15.3f} " for ms in _ms(one.seconds)))
    told = ", ".join(f"{name} {one * 1e6:.1f}" for name, one in event_s.items())
    print(f"Measured, µs of a scheduler per event: {told}")


def _ms(seconds: Iterable[float]) -> list[float]:
    return [round(one * 1e3, 4) for one in seconds]
