"""Measures the planner's constants (`synopses/answering/costs.py`) and prints them beside the values in use.

`python benchmarks/constants.py [part …]` runs without Spark. It runs every way of answering at several sizes. The
planner's estimates are linear in the constants, so the constants of a part are fitted to the times by least squares of
relative errors, none below 0; the other constants keep their values. Machines differ and a fit of many constants is
loose, so compare the order of the estimates, whose error is printed too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
from sqlglot import exp

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.accumulators import Accumulator, Key, Kind
from windrow.plan.aggregates import decompose
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.having import Bound, Comparison
from windrow.plan.nodes import Attribute, Scan, Selection, WindowAggregate
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup, LookupAnswer
from windrow.synopses.answering import costs
from windrow.synopses.answering.filter_costs import FilterWork
from windrow.synopses.answering.index_costs import IndexEstimate, IndexWork, interval, landmark, running
from windrow.synopses.answering.indexing import IndexSetting
from windrow.synopses.answering.selection_costs import SelectionBatch
from windrow.synopses.answering.way_costs import Way, window_work
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import build_chunks
from windrow.synopses.cells.sketches import ds, objects
from windrow.synopses.having.collective_index import Levels
from windrow.synopses.having.filter_tests import filter_test
from windrow.synopses.having.pane_filters import FilterRequest, PaneFilters
from windrow.synopses.having.units import coarseness
from windrow.synopses.holistic.roll_up import rows_of
from windrow.synopses.holistic.selecting import selected
from windrow.synopses.holistic.selection_sizes import selection_batch, selection_work
from windrow.synopses.index.landmark import partitions_of
from windrow.synopses.index.pane_index import PaneIndex
from windrow.synopses.index.sequence import TupleWindow
from windrow.types import SqlType
from windrow.windows import SlidingWindow

INT, DOUBLE, STRING = SqlType("INT"), SqlType("DOUBLE"), SqlType("STRING")
PRESENCE = Accumulator(Kind.COUNT, None, None, None)


@dataclass(frozen=True)
class Run:
    """A run, the planner's estimate of it, and how many times it is timed."""

    estimate: Callable[[], float]
    run: Callable[[], object]
    times: int = 5


def states_of(function: str, count: int) -> list[Accumulator]:
    """`count` accumulators of one state each."""
    return [part for i in range(count) for _, part in decompose(function, f"x{i}", INT, None).parts][:count]


def synopsis_of(
    groups: int, panes: int, reads: list[Accumulator], share: float = 1.0, scale: int = 1
) -> BasicIntervalSynopsis:
    """A synopsis of closed panes, each with a share of the groups; states are small numbers times `scale`."""
    synopsis = BasicIntervalSynopsis([pa.int64()])
    synopsis.groups.ids([pa.array(np.arange(groups))])
    for pane in range(panes):
        deposit(synopsis, pane, int(groups * share), reads, scale)
    return synopsis


def deposit(synopsis: BasicIntervalSynopsis, pane: int, count: int, reads: list[Accumulator], scale: int = 1) -> None:
    """Add a pane with `count` of the groups, and close it."""
    rng = np.random.default_rng(pane)
    ids = np.sort(rng.permutation(synopsis.groups.count - 1)[:count]) + 1
    values = rng.integers(1, 10, count) * scale
    cells = dict.fromkeys((PRESENCE, *reads), (values,))
    synopsis.deposit(Cells(np.full(count, pane, np.int64), ids, cells))
    synopsis.close(pane + 1)


def lookup_of(panes: int, windows: int, width: int, reads: list[Accumulator]) -> Lookup:
    ends = np.arange(panes - windows + 1, panes + 1)
    return Lookup("q", np.maximum(ends - width, 0), ends, PRESENCE, (PRESENCE, *reads), False)


def windows_run(way: Way, groups: int, panes: int, windows: int, width: int, reads: list[Accumulator]) -> Run:
    synopsis, lookup = synopsis_of(groups, panes, reads), lookup_of(panes, windows, width, reads)
    work = window_work([lookup], [(lookup.starts, lookup.ends)], groups + 1, panes, True)
    synopsis._way = lambda *_: way  # type: ignore[method-assign]
    estimates = {Way.ONE_PASS: lambda: work.one_pass, Way.TABLES: lambda: work.tables, Way.TREE: lambda: work.tree}
    return Run(estimates[way], lambda: list(synopsis.answer([lookup])))


SIZES = [(1, 400, 1, 300), (1, 400, 200, 100), (100, 400, 1, 300), (1000, 400, 50, 300), (1000, 400, 200, 20)]
"""(groups, panes, windows, width)."""


def walk() -> Iterator[Run]:
    for size in (*SIZES, (20_000, 100, 1, 100), (20_000, 100, 20, 50)):
        for columns in (1, 4):
            yield windows_run(Way.ONE_PASS, *size, states_of("SUM", columns))


def tables() -> Iterator[Run]:
    for size in SIZES:
        for columns in (1, 4):
            yield windows_run(Way.TABLES, *size, states_of("MAX", columns))


def tree() -> Iterator[Run]:
    for size in SIZES:
        for columns in (1, 4):
            yield windows_run(Way.TREE, *size, states_of("SUM", columns))


def sketches() -> Iterator[Run]:
    """Merges KLL sketches of a thousand values each."""
    fold = fold_of(decompose("APPROX_QUANTILE", "x", DOUBLE, None, ("0.5",)).parts[0][1])
    rng, count = np.random.default_rng(7), 1000
    made = []
    for _ in range(2 * count):
        sketch = ds.kll_doubles_sketch(200)
        sketch.update(rng.random(1000))
        made.append(sketch.serialize())
    into, state = objects(made[:count]), objects(made[count:])
    yield Run(lambda: count * costs.SKETCH_NS, lambda: fold.merge_into([into.copy()], [state]))


def index() -> Iterator[Run]:
    for groups in (10, 1000):
        yield from index_runs(groups, SynopsisKind.RUNNING, running, [])
        yield from index_runs(groups, SynopsisKind.INTERVAL, interval, states_of("MAX", 1))
        yield from index_runs(groups, SynopsisKind.LANDMARK, landmark, states_of("MAX", 1))


def index_runs(
    groups: int, kind: SynopsisKind, cost: Callable[[IndexWork], IndexEstimate], reads: list[Accumulator]
) -> Iterator[Run]:
    """Builds an index of one column pane by pane; then looks up one window, and many, in a synopsis that keeps it."""
    panes, width = 400, 100
    partitions = partitions_of([TupleWindow(width)])
    written = sum(1 + one.rights for one in partitions)
    synopsis = synopsis_of(groups, panes, reads)
    chunks = [one for pane in range(panes) for one in build_chunks(synopsis.cells_between(pane, pane + 1))]
    kept = IndexWork(panes, groups, 0 if reads else 1, len(reads), 1, width, 1.0, 1, written)
    needed = {a: a for a in reads or [PRESENCE]}
    yield Run(lambda: panes * cost(kept).update, lambda: PaneIndex(panes, groups, kind, partitions).add(needed, chunks))
    if kind is SynopsisKind.LANDMARK:
        return
    synopsis.indexer.setting = IndexSetting(kind)
    one, many = (lookup_of(panes, windows, width, reads) for windows in (1, 200))
    list(synopsis.answer([many]))
    assert synopsis.indexer.index is not None
    parts = synopsis.indexer.index.parts_of([PRESENCE, *reads])
    work = window_work([many], [(many.starts, many.ends)], groups + 1, panes, True)
    probing = IndexWork(width, groups, 1, len(reads), 1, width, 1.0)
    yield Run(lambda: cost(probing).lookup, lambda: list(synopsis.answer([one])), 20)
    yield Run(lambda: work.by_index(parts), lambda: list(synopsis.answer([many])))


def holistic() -> Iterator[Run]:
    rng = np.random.default_rng(7)
    median, distinct = decompose("MEDIAN", "x", DOUBLE, None), decompose(COUNT_DISTINCT, "x", DOUBLE, None)
    count = decompose("COUNT", None, None, None)
    scan = Selection(Scan("s", Attribute("t", SqlType("BIGINT"))), None)
    for calls in ((median,), (distinct,), (median, distinct, count)):
        for groups, values, windows, width in ((1, 5000, 100, 60), (1, 50, 200, 60), (100, 5000, 50, 20)):
            aggregate = WindowAggregate(scan, SlidingWindow(3, 1), (Key("k", STRING),), calls, 0, True)
            synopsis = BasicIntervalSynopsis([key.type.arrow for key in aggregate.cell_keys])
            panes, each = 200, 200
            keys = pa.array([f"k{g}" for g in rng.integers(0, groups, panes * each)])
            ids = synopsis.groups.ids([keys, pa.array(rng.random(values)[rng.integers(0, values, panes * each)])])
            states = {a: (np.ones(panes * each, np.int64),) for a in aggregate.accumulators}
            synopsis.deposit(Cells(np.repeat(np.arange(panes), each), ids, states))
            synopsis.close(panes)
            ends = np.arange(panes - windows + 1, panes + 1)
            lookup = Lookup("q", ends - width, ends, aggregate.presence, aggregate.accumulators, False)
            asked = aggregate, lookup.starts, lookup.ends
            work = selection_work(synopsis, *asked)
            whole = selection_batch(synopsis, [(asked, work)]) or SelectionBatch.alone(work)
            yield Run(
                lambda w=whole: w.rolled_ns,
                lambda a=aggregate, s=synopsis, one=lookup: [rows_of(a, x, s.groups) for x in s.answer([one])],
                3,
            )
            yield Run(
                lambda w=whole: w.selected_ns,
                lambda a=aggregate, s=synopsis, one=lookup: list(selected(s, [(a, one)])),
                3,
            )


def having() -> Iterator[Run]:
    for function, scale in (("COUNT", 1), ("SUM", 1), ("SUM", 10_000), ("MAX", 1), ("MIN", 1)):
        for groups, windows, share in ((20_000, 1, 0.001), (20_000, 6, 0.1), (100_000, 1, 0.001), (100_000, 6, 0.1)):
            yield from filter_runs(function, scale, groups, windows, share)


def filter_runs(function: str, scale: int, groups: int, windows: int, share: float) -> Iterator[Run]:
    """One run is a tick: a pane with a third of the groups closes, and the groups that may pass are looked up. The other
    run is the pass over all groups. CI-SUM counts in units of one unless numbers are large (`scale`)."""
    width, panes, levels, filters = 6, 12, Levels.within(0.4), PaneFilters()
    call = decompose(function, "x", INT, None)
    reads = [call.parts[0][1]]
    synopsis = synopsis_of(groups, panes, reads, 1 / 3, scale)
    summed = np.random.default_rng(7).integers(1, 10, (100_000, 2)).sum(axis=1)
    value = {"MAX": 9, "MIN": 1}.get(function, int(np.quantile(summed, 1 - share))) * scale
    comparison = Comparison.AT_MOST if function == "MIN" else Comparison.AT_LEAST
    test = filter_test(Bound(call, comparison, Decimal(value), exp.true()), PRESENCE)
    assert test is not None
    now = itertools.count(panes)

    def tick() -> list[LookupAnswer]:
        pane = next(now)
        deposit(synopsis, pane, groups // 3, reads, scale)
        one = lookup_of(pane + 1, 1, width, reads)
        found = filters.candidates(synopsis, [FilterRequest(test, one.starts, one.ends, width)] * windows, levels)
        return list(synopsis.answer([replace(one, query=f"q{i}", only=pairs) for i, pairs in enumerate(found)]))

    def scan() -> list[list[np.ndarray]]:
        found = synopsis.answer([lookup_of(panes, 1, width, reads)])
        return [[np.flatnonzero(looked.states[reads[0]][0] > 3) for _ in range(windows)] for looked in found]

    passing = sum(looked.window.size for looked in tick()) / (windows * groups)
    work = FilterWork(
        aggregate=function,
        p=levels.p,
        fine=coarseness(test, True) == 0,
        groups=groups,
        cells=groups // 3,
        windows=windows,
        intervals=1,
        looks=1,
        panes=width,
        longest=width,
        columns=1 + len(reads),
        share=passing,
    )
    yield Run(lambda: work.filter_ns, tick, 3)
    yield Run(lambda: work.pass_ns, scan)


PARTS: dict[str, Callable[[], Iterator[Run]]] = {
    one.__name__: one for one in (walk, tables, tree, sketches, index, holistic, having)
}


@contextmanager
def set_to(values: dict[str, float]) -> Iterator[None]:
    """Give some constants other values in this context."""
    before = {name: getattr(costs, name) for name in vars(costs) if name.endswith("_NS")}
    feed = {kind: values.get(f"FEED_NS[{kind}]", value) for kind, value in costs.FEED_NS.items()}
    try:
        for name, value in (values | {"FEED_NS": feed}).items():
            if "[" not in name:
                setattr(costs, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(costs, name, value)


def coefficients(names: list[str], estimate: Callable[[], float]) -> tuple[list[float], float]:
    """The factor of each constant in an estimate, and the estimate with all of them at 0."""
    none = dict.fromkeys(names, 0.0)
    with set_to(none):
        rest = estimate()
    found = []
    for name in names:
        with set_to(none | {name: 1.0}):
            found.append(estimate() - rest)
    return found, rest


def timed(run: Run) -> float:
    """The shortest time of several runs, in nanoseconds."""
    best = float("inf")
    for _ in range(run.times + 1):
        start = time.perf_counter_ns()
        run.run()
        best = min(best, time.perf_counter_ns() - start)
    return best


def fitted(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The constants, none below 0, with the least squared relative errors; NaN for a constant that no run uses."""
    weighted, goal = rows / times[:, None], np.ones(times.size)
    scale = np.abs(weighted).max(axis=0)
    free = [i for i in range(rows.shape[1]) if scale[i] > 0]
    out = np.where(scale > 0, 0.0, np.nan)
    while free:
        found = np.linalg.lstsq(weighted[:, free] / scale[free], goal, rcond=None)[0] / scale[free]
        if (found >= 0).all():
            out[free] = found
            return out
        del free[int(np.argmin(found * scale[free]))]
    return out


def measure(part: str) -> dict[str, float]:
    table = costs.measured_costs()
    names = [name for name, cost in table.items() if cost.part == part]
    rows, times, expected = [], [], []
    for run in PARTS[part]():
        row, rest = coefficients(names, run.estimate)
        took = timed(run)
        expected.append(run.estimate() / took)
        rows.append(row)
        times.append(max(took - rest, took / 10))
    # One more constant stands for the fixed cost of answering, which the planner does not need.
    fixed = np.full((len(rows), 1 if len(rows) > len(names) else 0), 1.0)
    found = fitted(np.hstack((np.array(rows), fixed)), np.array(times))[: len(names)]
    print(
        f"\n{part}: {len(times)} runs; estimates by the table are {min(expected):.2g} to {max(expected):.2g} of the times"
    )
    print(f"{'constant':20} {'table':>12} {'measured':>12}  what")
    for name, value in zip(names, found.tolist(), strict=True):
        print(f"{name:20} {float(table[name]):12,.6g} {value:12,.3g}  {table[name].unit}: {table[name].what}")
    return dict(zip(names, found.tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS), default=[])
    chosen = parser.parse_args().parts or list(PARTS)
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    measured = {name: value for part in chosen for name, value in measure(part).items()}
    print(f"RESULT {json.dumps(measured)}")


if __name__ == "__main__":
    main()
