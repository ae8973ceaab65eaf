"""Whole ticks of the queries by the engine, in the driver: what a user of Windrow waits for."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from joining.running import Events

import windrow
from expiring.kernel import PER_TICK
from expiring.queries import Query
from expiring.trace import POINT, Trace

COLUMNS = "t BIGINT, src BIGINT, dst BIGINT, protocol BIGINT, length BIGINT"


def measured(base: Path, query: Query, trace: Trace, execution: str, ticks: int) -> dict[str, Any]:
    """The time from the commit of the last frontier to that of the changes, and what tells the last answer from others."""
    step = PER_TICK // len(query.links)
    events = Events()
    with windrow.open(base / "state", settings={"plan_home": "driver", "retained_changes": 0}) as wr:
        wr.sql(f"SET execution = '{execution}'")
        for link in query.links:
            wr.sql(f"CREATE STREAM link{link} ({COLUMNS}) FROM memory TIMESTAMP BY t TICK {step} PUNCTUATE ORDERED")
        view = wr.query("q", query.text.format(w=f"[RANGE {trace.window}]"))
        full = -(-trace.window // step) * step
        _feed(wr, query, trace, 0, full + 1)
        times = []
        for i in range(ticks + ticks // 2):
            _feed(wr, query, trace, full + i * step + 1, full + (i + 1) * step + 1)
            if i >= ticks // 2:
                times.append(events.ticked["q"][1] - events.deposited_s)
        return {"tick_ms": 1_000 * statistics.median(times), "answer": _checked(view.view().arrow())}


def _checked(rows: pa.Table) -> list[int]:
    """The number of rows, and a sum of their hashes, in any order."""
    con = duckdb.connect()
    con.register("rows", rows)
    values = ", ".join(f'"{name}"' for name in rows.column_names)
    ((count, total),) = con.sql(f"SELECT count(*), sum(hash({values}) % 1000003) FROM rows").fetchall()
    return [count, int(total or 0)]


def _feed(wr: Any, query: Query, trace: Trace, first: int, last: int) -> None:
    for link in query.links:
        rows = trace.links[link - 1].slice(first, last - first)
        wr.feed(f"link{link}", rows.rename_columns(["t" if name == POINT else name for name in rows.column_names]))
    wr.run_available()
