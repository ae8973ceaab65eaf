"""Update patterns: Queries 1 to 5 of Golab and Özsu, SIGMOD 2005, section 6, by the three strategies of `SET execution`.

Windows of 2,000 to 2,000,000 tuples per link, 1,000 tuples per tick. UPA with calendars of 10 and of 50 partitions, NT
(every expiry is a negative tuple) and DIRECT (state is lists that are scanned; not for negation). Measured are the time of
the kernels per 1,000 tuples once the windows are full, the bytes kept, and whole ticks of the engine. The answers of all
strategies must be equal. Each query and size has a process of its own. Of Query 5 both plans are measured, and which of
them the optimizer chooses is compared with which was faster.

`--parts q1_ftp,q3` runs some queries, `--sizes 2000,2000000` some windows, `--measure kernels` no whole ticks (`whole`:
nothing else). `--quick` runs all in small, `--plots DIR` writes two charts per query.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from common import child, scratch
from plots import line_chart

SIZES, QUICK_SIZES = (2_000, 20_000, 200_000, 2_000_000), (2_000, 20_000)
WHOLE, QUICK_WHOLE = 200_000, 20_000
"""The window of which whole ticks are shown."""

NEGATION_JOINS = ("q5_above", "q5_below")
"""The two plans of one query: they have one text, and so whole ticks of one of them are both."""

NAMES = ("q1_ftp", "q1_telnet", "q2_sources", "q2_pairs", "q3", "q4", *NEGATION_JOINS)
TARGETS = (
    ("q1_telnet", "UPA(50)", "DIRECT", 10.0),
    ("q2_sources", "UPA(50)", "DIRECT", 10.0),
    ("q4", "UPA(50)", "DIRECT", 10.0),
    ("q1_ftp", "UPA(50)", "DIRECT", 1.5),
    ("q1_telnet", "UPA(50)", "NT", 2.0),
    ("q2_sources", "UPA(50)", "NT", 2.0),
    ("q2_pairs", "UPA(50)", "NT", 2.0),
    ("q4", "UPA(50)", "NT", 2.0),
    ("q1_ftp", "UPA(50)", "NT", 1.5),
)
"""At the largest window: the query, the faster strategy, the other one, and how many times it should take."""

Measured = dict[str, Any]


def kernels(name: str, window: int, ticks: int) -> Measured:
    """All strategies of a query over windows of one size, in this process."""
    from expiring.kernel import PER_TICK, WAYS, measured
    from expiring.queries import QUERIES
    from expiring.trace import Trace

    query = QUERIES[name]
    step = PER_TICK // len(query.links)
    trace = Trace(window, 2 * window + (ticks + ticks // 2 + 2) * step)
    found = {}
    for way in WAYS:
        if way.name != "DIRECT" or not query.is_strict:
            found[way.name] = measured(query, trace, way, ticks)
    answers = {tuple(one["answer"]) for one in found.values()}
    if len(answers) > 1:
        print(f"{name} over {window:,} tuples: the strategies differ: {answers}", flush=True)
    told = {"chosen": query.chosen(window, step, trace.facts)} if name in NEGATION_JOINS else {}
    return {**found, **told, "answers_ok": len(answers) == 1}


def whole(name: str, window: int, ticks: int) -> Measured:
    """Whole ticks of a query, by the strategies that can run it."""
    from expiring.kernel import PER_TICK
    from expiring.queries import QUERIES
    from expiring.trace import Trace
    from expiring.whole_ticks import measured

    query = QUERIES[name]
    trace = Trace(window, window + (ticks + ticks // 2 + 3) * PER_TICK)
    found = {}
    for execution in ("upa", "negative", *(() if query.is_strict else ("direct",))):
        with scratch() as base:
            found[execution] = measured(base, query, trace, execution, ticks)
    return {**found, "answers_ok": len({tuple(one["answer"]) for one in found.values()}) == 1}


def run(given: argparse.Namespace) -> Measured:
    """All that is asked for; `answers_ok`: whether the answers of all strategies were equal, everywhere."""
    result: Measured = {"sizes": given.sizes, "queries": {}, "answers_ok": True}
    for name in given.parts:
        found: Measured = {}
        if "kernels" in given.measure:
            found["kernels"] = {}
            for window in given.sizes:
                found["kernels"][window] = child(__file__, "--kernels", name, str(window), str(given.ticks))
                print(_line(name, window, found["kernels"][window]), flush=True)
            if given.plots is not None:
                _plot(given.plots, name, found["kernels"])
        if "whole" in given.measure and name != NEGATION_JOINS[1]:
            found["whole"] = child(__file__, "--whole", name, str(given.whole_size), str(max(6, given.ticks // 3)))
            ticks = ", ".join(f"{how} {one['tick_ms']:.1f} ms" for how, one in _ways(found["whole"]).items())
            print(f"  whole ticks, {given.whole_size:,} tuples: {ticks}", flush=True)
        measured = [*found.get("kernels", {}).values(), *([found["whole"]] if "whole" in found else [])]
        result["answers_ok"] &= all(one["answers_ok"] for one in measured)
        result["queries"][name] = found
    by_kernel = {name: found["kernels"] for name, found in result["queries"].items() if "kernels" in found}
    result["ratios"] = _ratios(by_kernel, given.sizes[-1])
    result["negation_join"] = _choices(by_kernel, given.sizes)
    result["answers_ok"] &= all(one["answers_ok"] for one in result["negation_join"])
    return result


def _ways(found: Measured) -> dict[str, Measured]:
    return {way: one for way, one in found.items() if isinstance(one, dict)}


def _choices(by_kernel: Measured, sizes: list[int]) -> list[Measured]:
    """For each size, the plan of the negation-join that the optimizer chooses, the one that was faster, and whether both
    have one answer."""
    found = []
    for window in sizes if set(NEGATION_JOINS) <= by_kernel.keys() else ():
        took = {name: by_kernel[name][window]["UPA(50)"]["ms"] for name in NEGATION_JOINS}
        chosen = next((n for n in NEGATION_JOINS if by_kernel[n][window]["chosen"].startswith("= ")), None)
        faster = min(took, key=lambda name: took[name])
        is_same = len({tuple(by_kernel[name][window]["UPA(50)"]["answer"]) for name in NEGATION_JOINS}) == 1
        found.append({"window": window, "chosen": chosen, "faster": faster, "answers_ok": is_same, **took})
        times = ", ".join(f"{name} {ms:.1f} ms" for name, ms in took.items())
        print(f"negation-join over {window:,}: {chosen} is chosen ({times})")
    return found


def _line(name: str, window: int, found: Measured) -> str:
    cells = [f"{name:<11} {window:>9,}"]
    for way, one in _ways(found).items():
        layout = f" {one['layout'].lower()} {one['premature']:.0%}" if "premature" in one else ""
        cells.append(f"{way} {one['ms']:8.2f} ms {one['bytes'] / 1e6:8.2f} MB{layout}")
    return " | ".join(cells)


def _ratios(by_kernel: Measured, largest: int) -> list[Measured]:
    found = []
    for name, fast, slow, wanted in TARGETS:
        if name in by_kernel:
            by_way = by_kernel[name][largest]
            ratio = by_way[slow]["ms"] / by_way[fast]["ms"]
            found.append({"query": name, "fast": fast, "slow": slow, "ratio": round(ratio, 2), "wanted": wanted})
            print(f"{name}: {slow} / {fast} = {ratio:.2f} (wanted {wanted})")
    if "q2_sources" in by_kernel:
        kept = by_kernel["q2_sources"][largest]
        ratio = min(kept[way]["kept"]["operators"] for way in ("NT", "DIRECT")) / kept["UPA(50)"]["kept"]["operators"]
        found.append({"query": "q2_sources", "state": round(ratio, 1), "wanted": 50})
        print(f"q2_sources: the state of δ* is {ratio:.0f} times smaller (wanted 50)")
    return found


def _plot(directory: Path, name: str, by_size: dict[int, Measured]) -> None:
    from expiring.queries import QUERIES

    directory.mkdir(parents=True, exist_ok=True)
    ways = list(_ways(next(iter(by_size.values()))))
    for what, label, scale in (("ms", "ms per 1,000 tuples", 1.0), ("bytes", "MB kept", 1e-6)):
        series = {way: [(size, one[way][what] * scale) for size, one in by_size.items()] for way in ways}
        path = directory / f"update_patterns_{name}_{what}.svg"
        line_chart(path, QUERIES[name].title, "tuples per link in the window", label, series, is_log=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(NAMES))
    parser.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--measure", type=lambda text: text.split(","), default=["kernels", "whole"])
    parser.add_argument("--plots", type=Path)
    parser.add_argument("--ticks", type=int)
    parser.add_argument("--kernels", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--whole", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    for one, made in ((given.kernels, kernels), (given.whole, whole)):
        if one is not None:
            print(json.dumps(made(one[0], int(one[1]), int(one[2]))))
            return
    given.sizes = given.sizes or list(QUICK_SIZES if given.quick else SIZES)
    given.ticks = given.ticks or (10 if given.quick else 40)
    given.whole_size = QUICK_WHOLE if given.quick else WHOLE
    print(f"RESULT {json.dumps(run(given))}")


if __name__ == "__main__":
    main()
