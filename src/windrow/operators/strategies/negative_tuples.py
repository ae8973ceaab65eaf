"""The negative tuple approach: a window says by a negative tuple that a row has expired (Golab's dissertation, section
2.3.3).

    a row with lifetime [ts, exp) comes at its first tick, and is withdrawn at the first above its exp

So the window is materialised here, in the order in which its rows leave. Every operator above sees each row twice, and
keeps its state by key, since no row says when it ends.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.live import LEAVE
from windrow.operators.layouts.steps import Outcome
from windrow.operators.tables.edges import COUNT, TICK, Edge, strict_schema
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import EXP, NEVER, TS, DueTicks


def negative_tuples(edge: Edge, path: str, window: Calendar, due: DueTicks) -> Outcome:
    """The rows that enter a window at the due ticks, and those that leave it."""
    enter, leave = edge.ticks(due)
    seen = np.flatnonzero(enter < leave)
    rows, enter, leave = taken(edge.rows, seen), enter[seen], leave[seen]
    kept = pa.table({LEAVE: leave, **{name: rows.column(name) for name in edge.names}})
    old = window.between(due.before, due.upto, kept.schema)
    soon, stays = leave <= due.upto, (leave > due.upto) & (leave < NEVER)
    gone = np.concatenate([leave[soon], longs(old.column(LEAVE))])
    head = {
        TICK: np.concatenate([enter, gone]),
        COUNT: np.repeat((1, -1), (enter.size, gone.size)),
        TS: np.concatenate([longs(rows.column(TS)), gone - 1]),
        EXP: np.full(enter.size + gone.size, NEVER, np.int64),
    }
    values = pa.concat_tables([one.select(edge.names) for one in (kept, taken(kept, soon), old)])
    columns = {**head, **{name: values.column(name) for name in edge.names}}
    made = pa.table(columns, schema=strict_schema(edge.schema))
    waiting = taken(kept, stays)
    return Outcome(
        Edge(made, edge.schema, is_strict=True),
        {path: window.appended(waiting).settled(due.upto)},
        tuple(window.cut(path, waiting)),
    )
