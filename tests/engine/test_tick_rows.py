"""`tick_rows` bounds what a continuous query processes in one commit."""

from __future__ import annotations

from engine.conftest import STREAM, Open
from engine.plan_streams import rows

TIMES = (0, 0, 1, 1, 1, 1, 2, 3, 4, 5)


def test_a_commit_ends_with_the_tick_of_its_last_tuple(open_state: Open) -> None:
    """The third tuple is of 1, as are three more; the third one after these is of 4."""
    reported = {}
    for limit in (3, 1_000):
        wr = open_state(f"of_{limit}", tick_rows=limit)
        wr.sql(STREAM)
        q, batches = wr.query("q", "SELECT x FROM s [RANGE 3]"), list[int]()
        q.subscribe(lambda batch, into=batches: into.append(batch.table.num_rows))
        wr.deposit("s", [*((t, "u", i) for i, t in enumerate(TIMES)), (9, "v", 99)])
        assert batches == ([6, 3, 1] if limit == 3 else [10])
        assert wr._engine.plans.query("q").progress.ticked == 9
        reported[limit] = rows(q.changes())
    assert reported[3] == reported[1_000] and [row[-1] for row in reported[3]] == list(range(10))
