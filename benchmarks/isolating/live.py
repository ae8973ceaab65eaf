"""Part (ii): the figures on a live state, by queries that scan their windows.

A stream keeps its tuples and has no standing query, so every answer is read from panes (`Result.answered_from` is
'driver'). A window update is a micro-batch, which completes a pane. The engine gets the scheduler of each test; reads are
of about one pane. Schedulers take turns on one stream, whose panes come again after n panes.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from isolating import aims
from isolating.figures import FIGURES, FOUR, Trials, lines_of, plot, values_of
from isolating.live_packets import LivePackets
from isolating.live_test import MS, SCHEDULERS, LiveOutcome, LiveTest
from isolating.metrics import metrics_of
from isolating.workload import Setting, Workload

OPEN = {"max_future": "off", "preaggregate": "driver", "ask_home": "driver", "serial_hold": "60 seconds"}
SHOWN = tuple(replace(one, schedulers=FOUR) for one in FIGURES if one.measure != "one_time_since_commit_s")


@dataclass(frozen=True)
class LiveSize:
    """How much is run. `threads` re-execute periodic queries; `rate` is the number of packets a second, always."""

    panes: tuple[int, ...] = (6, 12)
    trials: int = 2
    pane_s: float = 0.5
    rate: float = 100_000.0
    queries: int = 40
    threads: int = 3
    one_time_every_s: float = 0.5


QUICK = LiveSize(panes=(5,), trials=1)


@dataclass(frozen=True)
class LiveRun:
    """The tests of a setting, by scheduler."""

    tests: Mapping[str, list[LiveOutcome]]

    @property
    def trials(self) -> Trials:
        return {name: [metrics_of(one.outcome) for one in tests] for name, tests in self.tests.items()}

    @property
    def wrong(self) -> list[str]:
        return [f"{name}: {text}" for name, tests in self.tests.items() for one in tests for text in one.wrong]


def run(size: LiveSize, directory: Path, plots: Path | None) -> dict[str, Any]:
    """Run every setting on a state in a directory, print the figures; what they show."""
    import windrow

    runs: dict[Setting, LiveRun] = {}
    load_before = _load()
    with windrow.open(directory / "live", settings=OPEN) as wr:
        for panes in size.panes:
            runs |= runs_of(wr, size, panes)
    trials = {setting: one.trials for setting, one in runs.items()}
    print()
    for figure in SHOWN:
        print("\n".join(lines_of(figure, trials)), end="\n\n", flush=True)
        if plots is not None:
            plot(figure, trials, plots / "live")
    wrong = [text for one in runs.values() for text in one.wrong]
    answers = sum(len(one.outcome.answers) for each in runs.values() for tests in each.tests.values() for one in tests)
    print(f"load of the machine: {load_before} before, {_load()} after", flush=True)
    print(f"{answers:,} answers checked, {len(wrong)} wrong", *wrong[:5], sep="\n", flush=True)
    found = aims.checked(trials)
    print("\n".join(aims.lines_of(found)), flush=True)
    return {
        "pane_s": size.pane_s,
        "rate": size.rate,
        "threads": size.threads,
        "trials": size.trials,
        "load": {"before": load_before, "after": _load()},
        "answers": answers,
        "wrong": len(wrong),
        "settings": {str(setting): told(one) for setting, one in runs.items()},
        "figures": {figure.number: values_of(figure, trials) for figure in SHOWN},
        "aims": found,
    }


def runs_of(wr: Any, size: LiveSize, panes: int) -> dict[Setting, LiveRun]:
    """The tests of windows of so many panes: without one-time queries, and with them."""
    periodic = Setting(size.pane_s, panes, size.queries, size.rate)
    stream, pane_ms = f"packets_{panes}", round(size.pane_s * MS)
    packets = LivePackets([round(size.rate * size.pane_s)] * panes, pane_ms)
    wr.sql(
        f"CREATE STREAM {stream} (t BIGINT, src STRING, length INT) FROM memory TIMESTAMP BY t TICK {pane_ms}"
        f" PUNCTUATE ORDERED RETAIN {3 * panes * pane_ms}"
    )
    for pane in range(panes):
        wr.deposit(stream, packets.update(pane))
    found, first = dict[Setting, LiveRun](), panes
    with reads_of(packets.rows[0]):
        for setting in (periodic, replace(periodic, one_time_every_s=size.one_time_every_s)):
            tests: dict[str, list[LiveOutcome]] = defaultdict(list)
            for trial in range(size.trials):
                workload = replace(Workload.drawn(setting, trial), rows=packets.rows * 2)
                for name in FOUR if trial % 2 == 0 else FOUR[::-1]:
                    test = LiveTest(wr, stream, packets, workload, first, SCHEDULERS[name])
                    tests[name].append(test.run(size.threads))
                    first += panes
            found[setting] = LiveRun(tests)
            print_run(setting, found[setting])
    return found


@contextmanager
def reads_of(rows: int) -> Iterator[None]:
    """Within the block, one-time queries read about so many rows at once."""
    from windrow.engine.ask.onetime.driver_read import DriverRead

    before, DriverRead.read_rows = DriverRead.read_rows, rows
    try:
        yield
    finally:
        DriverRead.read_rows = before


def told(one: LiveRun) -> dict[str, dict[str, float]]:
    """What the figures do not show, by scheduler."""
    return {
        name: {
            "answers": sum(len(test.outcome.answers) for test in tests),
            "aborts": sum(test.outcome.aborts for test in tests),
            "panes_read": round(mean(test.reads for test in tests), 2),
            "stale_by_s": round(mean(test.behind_s for test in tests), 5),
            "update_s": round(mean(took for test in tests for took in test.update_s), 4),
        }
        for name, tests in one.tests.items()
    }


def print_run(setting: Setting, one: LiveRun) -> None:
    print(setting, flush=True)
    for name, numbers in told(one).items():
        print(f"  {name:<8}" + "".join(f"{key} {value:<11g}" for key, value in numbers.items()), flush=True)


def _load() -> float:
    """How many processes want to run, over a minute: this machine may have others to serve."""
    return round(os.getloadavg()[0], 2)
