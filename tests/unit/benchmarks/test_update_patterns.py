"""The trace of `benchmarks/update_patterns.py` has the properties of section 6 of Golab and Özsu; and the program runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import update_patterns
from expiring.trace import FTP, TELNET, Trace

WINDOW = 20_000
TRACE = Trace(WINDOW, 3 * WINDOW)


def column(link: int, name: str) -> np.ndarray:
    return np.asarray(TRACE.links[link - 1].column(name))


def met(protocol: int) -> tuple[int, float]:
    """The results of the join of links 1 and 2 over the last window, and the rows of an input of ftp packets."""
    counts, rows = [], []
    for link in (1, 2):
        last = column(link, "protocol")[-WINDOW:]
        counts.append(Counter(column(link, "src")[-WINDOW:][last == protocol].tolist()))
        rows.append(int((last == FTP).sum()))
    return sum(n * counts[1][src] for src, n in counts[0].items()), float(np.mean(rows))


def test_telnet_has_ten_times_the_results_of_ftp() -> None:
    (ftp, rows), (telnet, _) = met(FTP), met(TELNET)
    assert ftp == pytest.approx(rows, rel=0.15) and telnet / ftp == pytest.approx(10, rel=0.15)


def test_sources_and_pairs() -> None:
    rows = Trace(WINDOW, 400_000).links[0]
    src, dst = (rows.column(name).to_pylist() for name in ("src", "dst"))
    assert len(set(src)) == 2_000 and len(set(zip(src, dst, strict=True))) == 20_000


def results_without_link_3() -> tuple[int, int]:
    """The results of link 1 NOT EXISTS link 3 that begin in the second window, and how many are withdrawn before their
    end."""
    others: dict[int, list[int]] = defaultdict(list)
    for t, src in enumerate(column(3, "src").tolist()):
        others[src].append(t)
    every, premature = 0, 0
    for t, src in enumerate(column(1, "src")[: 2 * WINDOW].tolist()):
        begin = t
        for u in others[src]:
            if begin < u < t + WINDOW and u > begin:  # until u the row is there
                every, premature = (every + (begin >= WINDOW), premature + (begin >= WINDOW))
            if u < t + WINDOW and u + WINDOW > begin:  # and again when that packet goes
                begin = u + WINDOW
        every += WINDOW <= begin < t + WINDOW
    return every, premature


def test_two_fifths_of_the_negation_are_withdrawn() -> None:
    every, premature = results_without_link_3()
    assert every > WINDOW / 3 and premature / every == pytest.approx(0.4, abs=0.06)


@pytest.mark.slow
def test_one_query_in_small(tmp_path: Path) -> None:
    command = [sys.executable, update_patterns.__file__, "--quick", "--sizes", "2000", "--parts", "q1_ftp"]
    command += ["--measure", "kernels", "--ticks", "2", "--plots", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    words, _, told = done.stdout.splitlines()[-1].partition(" ")
    result: dict[str, Any] = json.loads(told)
    assert words == "RESULT" and result["answers_ok"]
    assert result["queries"]["q1_ftp"]["kernels"]["2000"].keys() >= {"UPA(10)", "UPA(50)", "NT", "DIRECT"}
    assert {(one["fast"], one["slow"]) for one in result["ratios"]} == {("UPA(50)", "DIRECT"), ("UPA(50)", "NT")}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "update_patterns_q1_ftp_bytes.svg",
        "update_patterns_q1_ftp_ms.svg",
    ]
