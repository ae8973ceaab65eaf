"""Concurrency control of one-time and periodic queries: Figures 7.8 to 7.14 of Golab's dissertation.

Four schedulers: Serial (queries hold window updates back), WS (window-serializable), LWS (Algorithm 7) and TTU (Algorithm
8). Measured are the share of transactions aborted, staleness, inter-execution time, throughput and the response time of
one-time queries.

Part i is a discrete-event simulation of the schedulers in `windrow.schedulers.transactions`, on one processor. What scans,
writes and decisions cost is measured first, and printed.

From the text (sections 7.5.1 to 7.5.4): panes of t = 1 s and 5 s, windows of n = 10 to 100 panes, 40 periodic queries for
t = 1 and 100 for t = 5, in groups of five that share a scan, re-executed round-robin without a pause; windows of one to n
panes; pane rates that deviate by a factor of up to ten; urgent one-time queries each second on average, for t = 5; tests as
long as the window; the mean of five trials, of the same workload for each scheduler. LWS reads in the order of the text's
circular array; Figure 7.8 also has Windrow's own order, oldest pane first.

Not from the text: the rate. Its 1,000 packets/s kept a machine of 2005 busy for about a second with a window of 100
seconds ("nearly every transaction incurs a concurrent window movement"). Here the rate is found, so that this holds here:
the scans of a group over 100 panes of t = 1 take a second. With one-time queries that rate would be too much, so it is
found by their load: with 100 panes they take 0.3 of the processor (`--load`). `--rate 1000` takes the text's own.

Part ii is live: the same figures on a state directory, by one-time queries that scan their windows, from three threads.
The engine gets each scheduler in turn, and a micro-batch each t = 0.5 s completes a pane; the rate is steady. LWS reads the
oldest pane first and aborts instead of re-scanning. Staleness is the lag in event time, as in part i; what answers say
themselves (`Result.stale_by`) is printed beside it. Every answer is checked, and so is the recorded history.

`--parts ii` runs one part. `--panes 10,100` takes some windows, `--trials` says how many of each, `--quick` runs all in
small, `--plots DIR` writes a chart for each figure and t (those of part ii in `live/`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import scratch


def _some(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(","))


def simulated(given: argparse.Namespace) -> dict[str, Any]:
    from isolating.simulated import QUICK, Size, run

    size = QUICK if given.quick else Size()
    asked = {"panes": given.panes, "trials": given.trials, "rate": given.rate, "load": given.load}
    size = replace(size, **{name: value for name, value in asked.items() if value is not None})
    with scratch() as directory:
        return run(size, directory, given.plots)


def live(given: argparse.Namespace) -> dict[str, Any]:
    from isolating.live import QUICK, LiveSize, run

    size = QUICK if given.quick else LiveSize()
    asked = {"panes": given.panes, "trials": given.trials, "rate": given.rate}
    size = replace(size, **{name: value for name, value in asked.items() if value is not None})
    with scratch() as directory:
        return run(size, directory, given.plots)


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"i": simulated, "ii": live}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--panes", type=_some)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--load", type=float)
    parser.add_argument("--plots", type=Path)
    given = parser.parse_args()
    print(f"RESULT {json.dumps({part: PARTS[part](given) for part in given.parts})}")


if __name__ == "__main__":
    main()
