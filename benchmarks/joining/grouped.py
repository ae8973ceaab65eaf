"""Three windows joined and grouped, for many ticks: the time of a tick stays the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joining.data import Load, expected_groups, groups_at
from joining.running import Run, Timed, median, told

GROUPS = """
    SELECT a.v AS g, COUNT(*) AS n, SUM(b.v) AS total FROM a {w} JOIN b {w} ON a.k = b.k JOIN c {w} ON b.k = c.k
    GROUP BY a.v
"""


def many_ticks(base: Path, load: Load, ticks: int) -> dict[str, Any]:
    """The time of a tick, after the first tenth of them; and the last tenth against the second."""
    run = Run(base, load, "abc")
    query = run.query(GROUPS)
    run.wr.start()
    run.measure_empty()
    run.fill(range(2), 2)
    timed, tenth = list[Timed](), ticks // 10
    for first in range(2, ticks + 2, tenth):
        timed += run.steps(range(first, first + tenth))
        told(f"  tick {len(timed):5}: {median(timed[-50:]):.3f} s, end to end {median(timed[-50:], 'whole_s'):.3f} s")
    run.measure_empty()
    asked = [1 + i * tenth for i in range(1, 11)]
    answers = groups_at(query.changes().arrow(), asked)
    assert answers == [expected_groups(load, tick) for tick in asked]
    home = run.home(query)
    run.close()
    early, late, all_but_first = timed[tenth : 2 * tenth], timed[-tenth:], timed[tenth:]
    return {
        "ticks": ticks,
        "tick_s": median(all_but_first),
        "end_to_end_s": median(all_but_first, "whole_s"),
        "empty_s": run.empty_s,
        "ratio": median(all_but_first) / run.empty_s,
        "late_over_early": median(late) / median(early),
        "home": home,
    }
