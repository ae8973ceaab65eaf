"""Update patterns: Queries 1 to 5 of Golab and Özsu, SIGMOD 2005, section 6, by the three strategies of `SET execution`.

Windows of 2,000 to 2,000,000 tuples per link, 1,000 tuples per tick. UPA with calendars of 10 and of 50 partitions, NT
(every expiry is a negative tuple) and DIRECT (state is lists that are scanned; not for negation). Measured are the time of
the kernels per 1,000 tuples once the windows are full, the bytes kept, and whole ticks of the engine. The answers of all
strategies must be equal. Each query and size has a process of its own.

`--parts q1_ftp,q3` runs some queries, `--quick` all in small, `--plots DIR` writes a chart per query.
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

NAMES = ("q1_ftp", "q1_telnet", "q2_sources", "q2_pairs", "q3", "q4", "q5_above", "q5_below")
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
    assert len(answers) == 1, f"{name} over {window:,} tuples: the strategies differ: {answers}"
    return found


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
    rows = {one["rows"] for one in found.values()}
    assert len(rows) == 1, f"{name}: the views differ: {rows}"
    return found


def run(parts: list[str], sizes: tuple[int, ...], whole_size: int, ticks: int, plots: Path | None) -> Measured:
    result: Measured = {"sizes": list(sizes), "queries": {}}
    for name in parts:
        by_size = {}
        for window in sizes:
            by_size[window] = child(__file__, "--kernels", name, str(window), str(ticks))
            print(_line(name, window, by_size[window]), flush=True)
        ticked = child(__file__, "--whole", name, str(whole_size), str(max(6, ticks // 3)))
        told = ", ".join(f"{how} {one['tick_ms']:.1f} ms" for how, one in ticked.items() if isinstance(one, dict))
        print(f"  whole ticks, {whole_size:,} tuples: {told}", flush=True)
        result["queries"][name] = {"kernels": by_size, "whole": ticked}
        if plots is not None:
            _plot(plots, name, by_size)
    result["ratios"] = _ratios(result["queries"], sizes[-1])
    return result


def _line(name: str, window: int, found: Measured) -> str:
    cells = [f"{name:<11} {window:>9,}"]
    for way, one in found.items():
        if isinstance(one, dict):
            layout = f" {one['layout'].lower()} {one['premature']:.0%}" if "premature" in one else ""
            cells.append(f"{way} {one['ms']:8.2f} ms {one['bytes'] / 1e6:8.2f} MB{layout}")
    return " | ".join(cells)


def _ratios(queries: Measured, largest: int) -> list[Measured]:
    found = []
    for name, fast, slow, wanted in TARGETS:
        if name in queries:
            by_way = queries[name]["kernels"][largest]
            ratio = by_way[slow]["ms"] / by_way[fast]["ms"]
            found.append({"query": name, "fast": fast, "slow": slow, "ratio": round(ratio, 2), "wanted": wanted})
            print(f"{name}: {slow} / {fast} = {ratio:.2f} (wanted {wanted})")
    if "q2_sources" in queries:
        kept = queries["q2_sources"]["kernels"][largest]
        ratio = min(kept[way]["kept"]["operators"] for way in ("NT", "DIRECT")) / kept["UPA(50)"]["kept"]["operators"]
        found.append({"query": "q2_sources", "state": round(ratio, 1), "wanted": 50})
        print(f"q2_sources: the state of δ* is {ratio:.0f} times smaller (wanted 50)")
    return found


def _plot(directory: Path, name: str, by_size: dict[int, Measured]) -> None:
    from expiring.queries import QUERIES

    directory.mkdir(parents=True, exist_ok=True)
    ways = [way for way, one in next(iter(by_size.values())).items() if isinstance(one, dict)]
    for what, label, scale in (("ms", "ms per 1,000 tuples", 1.0), ("bytes", "MB kept", 1e-6)):
        series = {way: [(size, one[way][what] * scale) for size, one in by_size.items()] for way in ways}
        path = directory / f"update_patterns_{name}_{what}.svg"
        line_chart(path, QUERIES[name].title, "tuples per link in the window", label, series)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", default=",".join(NAMES))
    parser.add_argument("--plots", type=Path)
    parser.add_argument("--ticks", type=int)
    parser.add_argument("--kernels", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--whole", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    for one, made in ((given.kernels, kernels), (given.whole, whole)):
        if one is not None:
            print(json.dumps(made(one[0], int(one[1]), int(one[2]))))
            return
    sizes, ticks = (QUICK_SIZES, 10) if given.quick else (SIZES, 40)
    size = QUICK_WHOLE if given.quick else WHOLE
    found = run(given.parts.split(","), sizes, size, given.ticks or ticks, given.plots)
    print(f"RESULT {json.dumps(found)}")


if __name__ == "__main__":
    main()
