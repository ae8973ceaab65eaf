"""Sharing among windows and among substreams, on one core (Arasu and Widom, VLDB 2004, Figures 9 to 12).

Figure 9: 1000 operators SUM S[N, 0], inputs that are part updates and part lookups; R-INT and B-INT against PSoup's
tree, materialise-all and materialise-none (`baselines.py`, also in NumPy). Inputs come in batches of 10,000, and each
algorithm takes a batch's updates and then its lookups at once. These are windows of one instant: the synopses answer
them in one walk over the cells, and materialise-none adds up each by itself, as it is defined. Answers are compared.

Figure 10: updates a second of R-INT (SUM), B-INT (MAX) and B-INT-QNT (QUANTILE) by N_max, in batches of 10,000.

Figure 11: their lookups a second by window width, N_max = 100,000, suffix and historical windows.

Figure 12: CI-COUNT with R-INT against R-INT alone for each substream, one update and one lookup in turn, windows of 15
minutes to 3 hours, thresholds that 3–5% of the substreams pass. Trades are synthetic; their rates differ as much as
those of stocks. Then the same by the number of substreams.

R-INT, B-INT and the collective index are the engine's own (`windrow.synopses`). B-INT-QNT, the filter over elements and
R-INT for each substream are reference classes (`windrow.reference`), which the engine does not run; the output marks
them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from baselines import MaterialiseAll, MaterialiseNone, PSoupTree
from plots import line_chart

from windrow.plan.having import Comparison
from windrow.reference.quantile_intervals import QuantileSynopsis
from windrow.reference.substream_filters import Range, SubstreamFilter
from windrow.reference.substreams import Substreams
from windrow.synopses.cells.folds import GREATEST, adding
from windrow.synopses.having.collective_index import Levels
from windrow.synopses.holistic.phi import Phi
from windrow.synopses.index.interval import IntervalSynopsis
from windrow.synopses.index.running import RunningSynopsis

SUM = adding(np.int64)
MINUTE = 60_000  # stamps are milliseconds
REACH = 180 * MINUTE
QUANTILE_NOTE = "B-INT-QNT is a reference class (windrow.reference): the engine selects from sorted panes"
FILTER_NOTE = "both are reference classes (windrow.reference): the engine filters cells of panes"


def rate(work: Callable[[], int], seconds: float, stretches: int = 5) -> float:
    """Inputs a second of `work`, which returns how many it took: the best of several stretches, after a warm-up call.

    Time is this process's CPU time, so other load on the machine hardly matters.
    """
    clock = time.process_time
    started = clock()
    work()
    calls = max(1, int(0.002 / max(clock() - started, 1e-6)))
    best = 0.0
    for _ in range(stretches):
        done, started = 0, clock()
        while (spent := clock() - started) < seconds / stretches or not done:
            done += sum(work() for _ in range(calls))
        best = max(best, done / spent)
    return best


# -- Figure 9 -----------------------------------------------------------------------------------------------


class Shared:
    """A synopsis of sums with the interface of the baselines."""

    def __init__(self, synopsis: Any):
        self._synopsis = synopsis

    def update(self, values: np.ndarray) -> None:
        self._synopsis.update((values,))

    def lookup(self, sizes: np.ndarray) -> np.ndarray:
        length = self._synopsis.length
        return self._synopsis.lookup(np.maximum(length - sizes, 0), np.full(sizes.size, length))[0]


ALGORITHMS: dict[str, Callable[[int], Any]] = {
    "R-INT": lambda span: Shared(RunningSynopsis(SUM, span)),
    "B-INT": lambda span: Shared(IntervalSynopsis(SUM, span)),
    "PSoup": lambda span: PSoupTree(SUM, span),
    "materialise all": MaterialiseAll,
    "materialise none": MaterialiseNone,
}


def figure_9(seconds: float, operators: int = 1000, batch: int = 10_000) -> dict[str, list[tuple[int, float]]]:
    """(percent of updates, inputs a second) of each algorithm; windows have 0 to 999 elements."""
    rng = np.random.default_rng(9)
    lines: dict[str, list[tuple[int, float]]] = {name: [] for name in ALGORITHMS}
    for percent in (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100):
        updates = batch * percent // 100
        values = rng.integers(0, 1000, (8, updates))
        sizes = rng.integers(0, operators, (8, batch - updates))
        answers = []
        for name, make in ALGORITHMS.items():
            algorithm = make(operators - 1)
            algorithm.update(rng_values(operators))
            work = taking(algorithm, values, sizes)
            work()
            answers.append(algorithm.lookup(sizes[0]).tolist())
            lines[name].append((percent, rate(work, seconds)))
        assert all(answer == answers[0] for answer in answers), "the algorithms differ"
        print(f"{percent:>8}%" + "".join(f"{lines[name][-1][1] / 1e6:>18.2f}" for name in lines), flush=True)
    return lines


def taking(algorithm: Any, values: np.ndarray, sizes: np.ndarray) -> Callable[[], int]:
    """Process one batch after another: its updates, then its lookups."""
    turn = [0]

    def work() -> int:
        i = turn[0] = (turn[0] + 1) % len(values)
        if values.shape[1]:
            algorithm.update(values[i])
        if sizes.shape[1]:
            algorithm.lookup(sizes[i])
        return values.shape[1] + sizes.shape[1]

    return work


def rng_values(count: int) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 1000, count)


# -- Figures 10 and 11 --------------------------------------------------------------------------------------

ASW: dict[str, Callable[[int], Any]] = {
    "R-INT": lambda span: RunningSynopsis(SUM, span),
    "B-INT": lambda span: IntervalSynopsis(GREATEST, span),
    "B-INT-QNT": lambda span: QuantileSynopsis(span, [Phi.of(0.5)]),
}


def figure_10(seconds: float, batch: int = 10_000) -> dict[str, list[tuple[int, float]]]:
    """(N_max, element updates a second) of each synopsis."""
    values = np.random.default_rng(10).integers(0, 1 << 40, batch)
    lines: dict[str, list[tuple[int, float]]] = {name: [] for name in ASW}
    for span in (1_000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000):
        for name, make in ASW.items():
            synopsis = make(span)

            def work(synopsis: Any = synopsis) -> int:
                synopsis.update((values,))
                return batch

            lines[name].append((span, rate(work, seconds)))
        print(f"{span:>9}" + "".join(f"{lines[name][-1][1] / 1e6:>18.2f}" for name in lines), flush=True)
    return lines


def figure_11(seconds: float, span: int = 100_000) -> tuple[dict[str, list[tuple[int, float]]], dict[str, float]]:
    """(window width, lookups a second) of each synopsis, in batches; and microseconds of a single lookup at W = N_max."""
    rng = np.random.default_rng(11)
    values = rng.integers(0, 1 << 40, 3 * span)
    lines: dict[str, list[tuple[int, float]]] = {name: [] for name in ASW}
    single: dict[str, float] = {}
    synopses = {name: make(span) for name, make in ASW.items()}
    for synopsis in synopses.values():
        for start in range(0, values.size, 9973):
            synopsis.update((values[start : start + 9973],))
    for width in (100, 1_000, 10_000, 20_000, 40_000, 60_000, 80_000, span):
        for name, synopsis in synopses.items():
            count = 2_000 if name == "B-INT-QNT" else 100_000
            lows = rng.integers(synopsis.first, synopsis.length - width + 1, count)

            def work(synopsis: Any = synopsis, lows: np.ndarray = lows, width: int = width) -> int:
                synopsis.lookup(lows, lows + width)
                return lows.size

            check_lookup(name, synopsis, int(lows[0]), width, values)
            lines[name].append((width, rate(work, seconds)))
            single[name] = 1e6 / rate(one_by_one(name, synopsis, lows, width), seconds)
        print(f"{width:>9}" + "".join(f"{lines[name][-1][1] / 1e6:>18.3f}" for name in lines), flush=True)
    return lines, single


def check_lookup(name: str, synopsis: Any, low: int, width: int, values: np.ndarray) -> None:
    found, held = synopsis.lookup(np.array([low]), np.array([low + width])), values[low : low + width]
    if name == "B-INT-QNT":
        assert found.codes[0, 0] == np.sort(held)[max(1, width // 2) - 1]
    else:
        assert found[0][0] == (held.sum() if name == "R-INT" else held.max())


def one_by_one(name: str, synopsis: Any, lows: np.ndarray, width: int) -> Callable[[], int]:
    asked = lows[:50].tolist()
    extra = (Phi.of(0.5),) if name == "B-INT-QNT" else ()

    def work() -> int:
        for low in asked:
            synopsis.lookup_one(low, low + width, *extra)
        return len(asked)

    return work


# -- Figure 12 and the number of substreams -------------------------------------------------------------------


class Trades:
    """Trades of many stocks, one after another; some trade thousands of times as often as others."""

    def __init__(self, substreams: int, per_substream: int, seed: int = 12):
        rng = np.random.default_rng(seed)
        weight = rng.lognormal(0, 1.5, substreams)
        count = substreams * per_substream
        self.extra = 100_000
        self.keys = rng.choice(substreams, count + self.extra, p=weight / weight.sum())
        self.stamps = np.arange(count + self.extra) * REACH // count
        self.count = count

    def fill(self, into: Any, batch: int = 100_000) -> float:
        """Feed all but the last trades to a filter. Return the seconds it took."""
        started = time.process_time()
        for start in range(0, self.count, batch):
            part = slice(start, min(start + batch, self.count))
            into.update(self.keys[part], self.stamps[part])
        return time.process_time() - started

    def asked(self, substreams: Substreams, queries: int = 16) -> list[tuple[int, int]]:
        """(window, threshold) such that 3 to 5% of the substreams have more trades than the threshold."""
        rng = np.random.default_rng(13)
        every, now, found = np.arange(substreams.keys), int(self.stamps[self.count - 1]), []
        for window in rng.integers(15 * MINUTE, REACH, queries).tolist():
            counts = np.sort(substreams.counts(every, now - window))
            near = [int(counts[-int(share * every.size) - 1]) for share in (0.05, 0.04, 0.03)]
            best = min(near, key=lambda v: abs(float((counts > v).mean()) - 0.04))
            found.append((int(window), best))
        return found


def interleaved(trades: Trades, filter_: Any, look: Callable[[int, int], Any], asked: Any, seconds: float) -> float:
    """Inputs a second: an update of one element and one lookup in turn."""
    at = [trades.count]

    def work() -> int:
        i = at[0] = at[0] + 1
        if i >= trades.stamps.size:
            raise SystemExit("too few trades for this many inputs")
        now = int(trades.stamps[i])
        filter_.update_one(int(trades.keys[i]), now)
        window, value = asked[i % len(asked)]
        look(value, now - window)
        return 2

    return rate(work, seconds)


def substream_rates(substreams: int, per_substream: int, ps: list[int], seconds: float) -> dict[str, Any]:
    """Inputs a second of R-INT for each substream, and of CI-COUNT with R-INT for each p; answers are compared."""
    trades = Trades(substreams, per_substream)
    alone = Substreams(REACH)
    fill_alone = trades.fill(alone)
    asked = trades.asked(alone)
    every = np.arange(alone.keys)
    now = int(trades.stamps[trades.count - 1])

    def each(value: int, since: int) -> np.ndarray:
        counts = alone.counts(every, since)
        return np.flatnonzero(counts > value)

    right = [each(value, now - window).tolist() for window, value in asked[:4]]
    found: dict[str, Any] = {"substreams": substreams, "elements": trades.count, "p": {}}
    found["selectivity"] = float(np.mean([len(keys) for keys in right])) / substreams
    for p in ps:
        filter_ = SubstreamFilter(Levels(p), REACH)
        fill = trades.fill(filter_)

        def look(value: int, since: int, filter_: SubstreamFilter = filter_) -> Any:
            return filter_.lookup(Range(Comparison.MORE, value), since)

        for (window, value), keys in zip(asked, right, strict=False):
            assert look(value, now - window).keys.tolist() == keys, "the answers differ"
        found["p"][p] = {
            "inputs_per_s": interleaved(trades, filter_, look, asked, seconds),
            "epsilon": Levels(p).epsilon,
            "batched_updates_per_s": trades.count / fill,
            "values_kept": filter_.size,
        }
        del filter_, look
    found["per_substream_inputs_per_s"] = interleaved(trades, alone, each, asked, seconds)
    found["per_substream_batched_updates_per_s"] = trades.count / fill_alone
    best = max(found["p"], key=lambda p: found["p"][p]["inputs_per_s"])
    found["best_p"] = best
    found["ratio"] = found["p"][best]["inputs_per_s"] / found["per_substream_inputs_per_s"]
    print(
        f"{substreams:>9} substreams: per substream {found['per_substream_inputs_per_s']:>10,.0f} inputs/s;  CI-COUNT "
        + ", ".join(f"p={p}: {row['inputs_per_s']:,.0f}" for p, row in found["p"].items())
        + f";  ratio {found['ratio']:.1f}",
        flush=True,
    )
    return found


def crossover(rows: list[dict[str, Any]]) -> float | None:
    """The number of substreams from which the ratio exceeds one, interpolated logarithmically between the measured
    ones."""
    for before, after in zip(rows, rows[1:], strict=False):
        if before["ratio"] < 1 <= after["ratio"]:
            x, y = (np.log([r["substreams"] for r in (before, after)]), np.log([r["ratio"] for r in (before, after)]))
            return float(np.exp(x[0] - y[0] * (x[1] - x[0]) / (y[1] - y[0])))
    return None


# -- the run ------------------------------------------------------------------------------------------------


def chart(path: Path, title: str, x: str, y: str, lines: dict[str, Any]) -> None:
    """Plot with a logarithmic y axis, since the algorithms are orders of magnitude apart."""
    series = {name: [(float(a), float(np.log10(b))) for a, b in line] for name, line in lines.items()}
    line_chart(path, title, x, f"log10 of {y}", series)
    print(f"plot: {path}")


def wins(lines: dict[str, list[tuple[int, float]]], name: str) -> list[int]:
    """The percentages of updates at which this algorithm is the fastest."""
    return [
        p for i, (p, _) in enumerate(lines[name]) if lines[name][i][1] == max(line[i][1] for line in lines.values())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.6, help="how long each point is measured")
    parser.add_argument("--plots", type=Path, default=Path("."), help="the folder that the plots are written to")
    parser.add_argument("--substreams", type=int, nargs="*", default=[100, 300, 1000, 3000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--per-substream", type=int, default=10, help="elements of a substream within three hours")
    parser.add_argument("--figures", type=int, nargs="*", default=[9, 10, 11, 12], help="which of them")
    args = parser.parse_args()
    args.plots.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {}
    if 9 in args.figures:
        print("\nFigure 9: million inputs a second by the share of updates, 1000 operators\n" + heading(ALGORITHMS))
        lines = figure_9(args.seconds)
        chart(args.plots / "figure_9_sharing.svg", "Figure 9", "updates, % of inputs", "inputs a second", lines)
        result["figure_9"] = lines
        result["running_above_interval"] = above(lines["R-INT"], lines["B-INT"])
        result["interval_not_below_psoup"] = above(lines["B-INT"], lines["PSoup"])
        result["interval_over_psoup"] = [b[1] / p[1] for b, p in zip(lines["B-INT"], lines["PSoup"], strict=True)]
        result["materialise_all_wins_at"] = wins(lines, "materialise all")
        result["materialise_none_wins_at"] = wins(lines, "materialise none")
    if 10 in args.figures:
        print(f"\nFigure 10: million updates a second by N_max, batches of 10,000\n{QUANTILE_NOTE}\n" + heading(ASW))
        lines = figure_10(args.seconds)
        chart(args.plots / "figure_10_updates.svg", "Figure 10", "N_max", "updates a second", lines)
        result["figure_10"] = lines
        for name, line in lines.items():
            result[f"{plain(name)}_updates_per_s"] = line[-1][1]
    if 11 in args.figures:
        print(
            f"\nFigure 11: million lookups a second by window width, N_max = 100,000\n{QUANTILE_NOTE}\n" + heading(ASW)
        )
        lines, single = figure_11(args.seconds)
        chart(args.plots / "figure_11_lookups.svg", "Figure 11", "window width", "lookups a second", lines)
        result["figure_11"] = lines
        for name, line in lines.items():
            result[f"{plain(name)}_lookups_per_s"] = line[-1][1]
            result[f"{plain(name)}_single_lookup_us"] = single[name]
        print("single lookups, µs: " + ", ".join(f"{name} {us:.1f}" for name, us in single.items()))
    if 12 in args.figures:
        print(
            f"\nFigure 12: CI-COUNT with R-INT by p, 5000 substreams; then by the number of substreams\n{FILTER_NOTE}"
        )
        row = substream_rates(5000, 200, [1, 2, 4, 8, 16, 32], args.seconds)
        lines = {
            "CI-COUNT with R-INT": [(p, r["inputs_per_s"]) for p, r in row["p"].items()],
            "R-INT for each substream": [(p, row["per_substream_inputs_per_s"]) for p in row["p"]],
        }
        chart(args.plots / "figure_12_ci_count.svg", "Figure 12", "p", "inputs a second", lines)
        result["figure_12"] = row
        rows = [substream_rates(n, args.per_substream, [4], args.seconds) for n in args.substreams]
        result["by_substreams"] = rows
        for row in rows:
            result[f"ci_count_ratio_at_{row['substreams']}"] = row["ratio"]
        result["ci_count_crossover_substreams"] = crossover(rows)
    print("RESULT " + json.dumps(result))


def heading(names: Any) -> str:
    return " " * 9 + "".join(f"{name:>18}" for name in names)


def above(upper: list[tuple[int, float]], lower: list[tuple[int, float]]) -> bool:
    return all(a[1] >= b[1] for a, b in zip(upper, lower, strict=True))


def plain(name: str) -> str:
    return {"R-INT": "running", "B-INT": "interval", "B-INT-QNT": "quantile"}[name]


if __name__ == "__main__":
    main()
