"""Six ways to schedule periodic queries, simulated (Golab's dissertation, Figures 8.7 to 8.10), and what scheduling costs.

The schedulers are the product's own (`windrow.schedulers.queries`). The machine is simulated: it answers at a fixed
speed, one run after another, and the synopses are updated every second.

Six groups of queries compute top-k lists and quantiles of bandwidth by source, destination, pair of both, protocol,
port, and pair of these. Windows are 20 to 100 updates long, SLIDE is from 1 to half of that. Each group has a basic
interval synopsis of counters, one per distinct value and update. A run merges the counters of its longest window, then
each of its queries looks through the merged ones, which costs a tenth per counter (`--post`). Tasks run when they are
due, or also `--ahead` of that, as the algorithms are printed.

The low rate is the one at which conservative scheduling first misses deadlines of 40 queries: the speed of the machine is
fitted to 1,500 tuples per update over 1,000 sources and destinations and 100 protocols and ports. The high rate is twice
that, with twice as many distinct values.

Throughput is answers per second. Latency is how many more updates than asked for come between two answers of a query:
the mean over the answers of each query, and then over queries. All figures are means over several workloads.

The last part measures the time that the schedulers themselves take with 10,000 queries.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from plots import line_chart

from windrow.schedulers.queries import (
    ExecutionCost,
    PeriodicQuery,
    QueryArrives,
    QueryLeaves,
    QueryScheduler,
    RunFinished,
    RunTogether,
    ScheduleDecision,
    ScheduleEvent,
    SynopsesUpdated,
    query_scheduler,
)

TECHNIQUES = {
    "edf": "No-S",
    "aggressive": "AS",
    "conservative": "CS",
    "hybrid": "HS",
    "late": "H-LS",
    "late_pending": "H-LP",
}
COUNTS = (40, 80, 160, 240)
RATES = {"low": 1, "high": 2}


# -- the workload --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Traffic:
    """Packets per update, and how many distinct values their fields have."""

    factor: int
    post: float

    @property
    def rate(self) -> int:
        return 1500 * self.factor

    def distinct(self, group: str) -> int:
        hosts, kinds = 1000 * self.factor, 100 * self.factor
        return {
            "source": hosts,
            "destination": hosts,
            "source and destination": hosts * hosts,
            "protocol": kinds,
            "port": kinds,
            "protocol and port": kinds * kinds,
        }[group]

    def counters(self, group: str, updates: int) -> float:
        """The distinct values that so many updates bring, on average."""
        values = self.distinct(group)
        return values * (1 - (1 - 1 / values) ** (self.rate * updates))

    def cost(self, query: PeriodicQuery) -> ExecutionCost:
        """In counters merged."""
        window = query.window or 1
        shared = window * self.counters(query.group, 1)
        return ExecutionCost(shared, self.post * self.counters(query.group, window))


GROUPS = ("source", "destination", "source and destination", "protocol", "port", "protocol and port")


def workload(count: int, seed: int) -> list[PeriodicQuery]:
    random = Random(f"workload {seed}")
    queries = []
    for i in range(count):
        window = random.randint(20, 100)
        queries.append(PeriodicQuery(f"q{i}", GROUPS[i % len(GROUPS)], random.randint(1, window // 2), window))
    return queries


# -- the machine ---------------------------------------------------------------------------------------------


class Machine:
    """Carries out what a scheduler decides. Time is in updates."""

    def __init__(self, name: str, queries: Sequence[PeriodicQuery], traffic: Traffic, speed: float, ahead: bool):
        self.costs = {query.name: traffic.cost(query) for query in queries}
        self.scheduler = query_scheduler(name, traffic.cost, ahead=ahead)
        self.speed = speed
        self.asked = {query.name: query.period for query in queries}
        self.shown = {query.name: 0 for query in queries}
        self.answers = {query.name: 0 for query in queries}
        self.extra = {query.name: 0 for query in queries}
        self.runs: list[tuple[float, RunTogether]] = []
        self.now = 0.0
        self.measured = 0
        for query in queries:
            self._carry_out(self.scheduler.on(QueryArrives(query)))

    def play(self, updates: int, warm_up: int) -> Machine:
        """So many updates; what happens in the first ones does not count."""
        for update in range(1, warm_up + updates + 1):
            while self.runs and self.runs[0][0] <= update:
                self._finish()
            self.now = float(update)
            self._carry_out(self.scheduler.on(SynopsesUpdated()))
            if update == warm_up:
                self.answers = dict.fromkeys(self.answers, 0)
                self.extra = dict.fromkeys(self.extra, 0)
        self.measured = updates
        for name in self.asked:  # those that wait at the end count as if they were answered now
            self._count(name, warm_up + updates)
        return self

    def _finish(self) -> None:
        self.now, run = self.runs.pop(0)
        for name in run.queries:
            self._count(name, run.update)
        self._carry_out(self.scheduler.on(RunFinished(run.run)))

    def _count(self, name: str, update: int) -> None:
        self.answers[name] += 1
        self.extra[name] += max(0, update - self.shown[name] - self.asked[name])
        self.shown[name] = update

    def _carry_out(self, decisions: Sequence[ScheduleDecision]) -> None:
        for run in decisions:
            if isinstance(run, RunTogether):
                costs = [self.costs[name] for name in run.queries]
                cost = max(one.shared for one in costs) + sum(one.own for one in costs)
                self.runs.append((self.now + cost / self.speed, run))

    @property
    def throughput(self) -> float:
        return (sum(self.answers.values()) - len(self.answers)) / self.measured

    @property
    def latency(self) -> float:
        return sum(self.extra[name] / self.answers[name] for name in self.asked) / len(self.asked)


# -- Figures 8.7 to 8.10 -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What all simulations of a run have in common."""

    updates: int
    warm_up: int
    seeds: int
    post: float
    ahead: bool

    def play(self, name: str, count: int, factor: int, seed: int, speed: float) -> Machine:
        queries = workload(count, seed)
        return Machine(name, queries, Traffic(factor, self.post), speed, self.ahead).play(self.updates, self.warm_up)


def fitted_speed(settings: Settings, seed: int) -> float:
    """The fastest machine on which conservative scheduling misses deadlines of 40 queries, to one percent."""
    slow, fast = 1e3, 1e9
    while fast / slow > 1.01:
        speed = (slow * fast) ** 0.5
        if settings.play("conservative", 40, RATES["low"], seed, speed).latency > 0:
            slow = speed
        else:
            fast = speed
    return slow


Figures = dict[str, dict[str, list[tuple[int, float]]]]
"""By measure, then by technique: (number of queries, value)."""


def figures(settings: Settings, rate: str, counts: Sequence[int], speeds: Sequence[float]) -> Figures:
    found: Figures = {"throughput": {}, "latency": {}}
    for name in TECHNIQUES:
        for count in counts:
            played = [settings.play(name, count, RATES[rate], seed, speed) for seed, speed in enumerate(speeds)]
            for measure in found:
                mean = sum(getattr(one, measure) for one in played) / len(played)
                found[measure].setdefault(name, []).append((count, mean))
    return found


def print_figures(found: Figures, rate: str, numbers: tuple[str, str]) -> None:
    units = {"throughput": "answers per second", "latency": "updates too many between answers"}
    for (measure, lines), number in zip(found.items(), numbers, strict=True):
        print(f"\nFigure {number}: {measure}, {units[measure]}, {rate} rate")
        print("queries " + "".join(f"{label:>9}" for label in TECHNIQUES.values()))
        for i, (count, _) in enumerate(lines["edf"]):
            print(f"{count:>7} " + "".join(f"{lines[name][i][1]:>9.2f}" for name in TECHNIQUES), flush=True)


def largest(found: Figures, measure: str, name: str) -> float:
    return found[measure][name][-1][1]


def ratios(found: Figures, measure: str, one: str, other: str) -> list[float]:
    """For each number of queries, one technique's figure over the other's."""
    pairs = zip(found[measure][one], found[measure][other], strict=True)
    return [a / b if b else float(a > 0) for (_, a), (_, b) in pairs]


def aims(low: Figures, high: Figures) -> list[tuple[str, list[float], str, bool]]:
    """(what, measured for each number of queries, aim, whether the largest number of queries reaches it)."""
    others = [name for name in TECHNIQUES if name != "late_pending"]
    best = min(others, key=lambda name: largest(high, "latency", name))
    faster = ratios(low, "throughput", "hybrid", "conservative")
    later = ratios(low, "latency", "hybrid", "conservative")
    shared = ratios(high, "throughput", "late_pending", "hybrid")
    least = ratios(high, "latency", "late_pending", best)
    return [
        ("throughput of HS / CS, low rate", faster, "at least 2", faster[-1] >= 2),
        ("latency of HS / CS, low rate", later, "at most 0.2", later[-1] <= 0.2),
        ("throughput of H-LP / HS, high rate", shared, "at least 1.8", shared[-1] >= 1.8),
        (f"latency of H-LP / {TECHNIQUES[best]}, the next, high rate", least, "below 1", least[-1] < 1),
    ]


def print_aims(found: Sequence[tuple[str, list[float], str, bool]], counts: Sequence[int]) -> None:
    print(f"\n{'Aims, for the largest number of queries':<46}" + "".join(f"{count:>8}" for count in counts))
    for what, measured, aim, is_reached in found:
        numbers = "".join(f"{one:>8.2f}" for one in measured)
        print(f"  {what:<44}{numbers}   {aim}: {'reached' if is_reached else 'missed'}")


def draw(directory: Path, found: Figures, rate: str, numbers: tuple[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    units = {"throughput": "answers per second", "latency": "latency, updates"}
    for (measure, lines), number in zip(found.items(), numbers, strict=True):
        path = directory / f"figure_{number.replace('.', '_')}_{measure}.svg"
        series = {TECHNIQUES[name]: line for name, line in lines.items()}
        line_chart(path, f"Figure {number}: {measure}, {rate} rate, simulated", "queries", units[measure], series)
        print(f"plot: {path}")


# -- what scheduling costs -----------------------------------------------------------------------------------


def overhead(name: str, count: int, groups: int, updates: int, changes: int) -> dict[str, Any]:
    """Seconds of a scheduler per update with so many queries, of which some go and others come at every update.

    Every run is done at once, so that the scheduler has as much to do as it can have.
    """
    random = Random("overhead")
    scheduler = query_scheduler(name, lambda query: ExecutionCost(float(query.window or 1), 0.1))
    names: list[str] = []

    def come() -> QueryArrives:
        window = random.randint(20, 100)
        names.append(f"q{len(names)}")
        period = random.randint(1, window // 2)
        return QueryArrives(PeriodicQuery(names[-1], f"g{random.randrange(groups)}", period, window))

    arrivals = [come() for _ in range(count)]
    arriving = timed(scheduler, arrivals)
    first = timed(scheduler, [SynopsesUpdated()])
    spent = runs = answers = gone = 0
    for _ in range(updates):
        events = [come() for _ in range(changes)] + [QueryLeaves(names[gone + i]) for i in range(changes)]
        gone += changes
        took, done, answered = timed(scheduler, [*events, SynopsesUpdated()])
        spent, runs, answers = spent + took, runs + done, answers + answered
    return {
        "scheduler": name,
        "groups": groups,
        "arrival_us": 1e6 * arriving[0] / count,
        "first_plan_s": first[0],
        "s_per_update": spent / updates,
        "runs_per_update": runs / updates,
        "answers_per_update": answers / updates,
        "us_per_answer": 1e6 * spent / max(answers, 1),
    }


def timed(scheduler: QueryScheduler, events: Sequence[ScheduleEvent]) -> tuple[float, int, int]:
    """Tell events, and end every run at once. Return the scheduler's seconds, the runs, and the answers."""
    spent, runs, answers = 0.0, 0, 0
    ahead = list(reversed(events))
    while ahead:
        event = ahead.pop()
        begin = time.process_time()
        decided = scheduler.on(event)
        spent += time.process_time() - begin
        for run in decided:
            if isinstance(run, RunTogether):
                runs, answers = runs + 1, answers + len(run.queries)
                ahead.append(RunFinished(run.run))
    return spent, runs, answers


def print_overhead(rows: Sequence[dict[str, Any]], count: int, changes: int) -> None:
    print(f"\nScheduling of {count:,} queries, {changes} of which go and {changes} come at every update")
    print(
        f"{'scheduler':<14}{'groups':>8}{'runs':>8}{'answers':>9}{'ms':>9}{'share of 1 s':>14}{'µs/answer':>11}{'first plan, s':>15}"
    )
    for row in rows:
        print(
            f"{row['scheduler']:<14}{row['groups']:>8,}{row['runs_per_update']:>8.0f}{row['answers_per_update']:>9.0f}"
            f"{1e3 * row['s_per_update']:>9.2f}{row['s_per_update']:>14.2%}{row['us_per_answer']:>11.2f}{row['first_plan_s']:>15.2f}",
            flush=True,
        )


# -- the run -------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer updates, workloads and queries")
    parser.add_argument("--updates", type=int, default=500, help="how many updates are simulated")
    parser.add_argument("--workloads", type=int, default=5, help="how many random workloads")
    parser.add_argument(
        "--post", type=float, default=0.1, help="what looking at a merged counter costs; merging costs 1"
    )
    parser.add_argument("--ahead", action="store_true", help="run tasks before they are due, too, when there is time")
    parser.add_argument("--plots", type=Path, help="the folder that plots are written to")
    args = parser.parse_args()
    counts = COUNTS[:2] if args.quick else COUNTS
    updates, seeds = (150, 1) if args.quick else (args.updates, args.workloads)
    settings = Settings(updates, updates // 5, seeds, args.post, args.ahead)
    speeds = [fitted_speed(settings, seed) for seed in range(seeds)]
    print(
        f"{seeds} workloads, {updates} updates; the machine merges {min(speeds):,.0f} to {max(speeds):,.0f} counters between two"
    )
    result: dict[str, Any] = {"post": args.post, "ahead": settings.ahead, "speeds": speeds}
    found: dict[str, Figures] = {}
    for rate, numbers in (("low", ("8.7", "8.8")), ("high", ("8.9", "8.10"))):
        found[rate] = figures(settings, rate, counts, speeds)
        print_figures(found[rate], rate, numbers)
        result[f"{rate}_rate"] = found[rate]
        if args.plots:
            draw(args.plots, found[rate], rate, numbers)
    reached = aims(found["low"], found["high"])
    print_aims(reached, counts)
    result["aims"] = {what: {"measured": each, "aim": aim, "reached": done} for what, each, aim, done in reached}
    queries, changes = (1_000, 2) if args.quick else (10_000, 10)
    sizes = (6, 100, queries)
    rows = [
        overhead(name, queries, groups, 20 if args.quick else 100, changes) for name in TECHNIQUES for groups in sizes
    ]
    print_overhead(rows, queries, changes)
    worst = max(row["s_per_update"] for row in rows)
    print(f"  most: {worst:.2%} of a second between updates   below 2%: {'reached' if worst < 0.02 else 'missed'}")
    result |= {"overhead": rows, "worst_share_of_a_second": worst}
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
