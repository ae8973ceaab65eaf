"""The demo: simulated traffic, six standing queries and their live answers, and a join of two streams."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.live import Live

from windrow.console.interrupts import Interrupts
from windrow.console.live import Flow, Joined, Progress, Standing, demo_lines, demo_screen
from windrow.console.running import FlowMeter
from windrow.console.tables import output, print_table, print_view, say

if TYPE_CHECKING:
    from windrow.api import Windrow
    from windrow.handles import Query

REFRESH_S = 0.5
LINE_S = 5.0
ROWS_SHOWN = 3

BACKBONE_SHARE = 10
"""The second link, `backbone`, has so many times fewer packets than the first."""

STREAMS = """
CREATE STREAM packets
  (ts TIMESTAMP, proto STRING, src STRING, dst STRING, header_size INT, length INT, flags INT, ttl INT)
FROM packets OPTIONS (rate '{rate}')
TIMESTAMP BY ts PUNCTUATE ORDERED;

CREATE STREAM backbone (ts TIMESTAMP, src STRING, length INT)
FROM packets OPTIONS (rate '{backbone_rate}', link '2')
TIMESTAMP BY ts PUNCTUATE ORDERED
"""


@dataclass(frozen=True)
class DemoQuery:
    """A query of the demo; `{window}` in `select` stands for its window."""

    name: str
    title: str
    range_s: int
    slide_s: int
    select: str

    @property
    def text(self) -> str:
        return self.select.format(window=f"RANGE {self.range_s} SECONDS SLIDE {self.slide_s} SECONDS")

    @property
    def window(self) -> str:
        return f"last {self.range_s} s, every {self.slide_s} s"


@dataclass(frozen=True)
class DemoJoin:
    """The demo's continuous query, over two streams."""

    name: str
    title: str
    window: str
    text: str


QUERIES = (
    DemoQuery(
        "traffic",
        "Traffic by protocol",
        10,
        1,
        "SELECT proto, COUNT(*) AS packets, SUM(header_size + length) AS bytes FROM packets [{window}] "
        "GROUP BY proto ORDER BY bytes DESC",
    ),
    DemoQuery(
        "top_talkers",
        "Top talkers",
        30,
        2,
        "SELECT src, SUM(header_size + length) AS bytes, COUNT(*) AS packets FROM packets [{window}] "
        "GROUP BY src ORDER BY bytes DESC LIMIT 3",
    ),
    DemoQuery(
        "busiest_destinations",
        "Busiest destinations",
        60,
        5,
        "SELECT dst, COUNT(*) AS packets FROM packets [{window}] GROUP BY dst ORDER BY packets DESC LIMIT 3",
    ),
    DemoQuery(
        "packet_sizes",
        "Packet sizes",
        20,
        1,
        "SELECT proto, AVG(length) AS mean, STDDEV(length) AS stddev, MIN(length) AS least, "
        "MAX(length) AS most FROM packets [{window}] GROUP BY proto ORDER BY proto",
    ),
    DemoQuery(
        "suspicious",
        "Many tiny packets",
        15,
        3,
        "SELECT src, COUNT(*) AS tiny, AVG(ttl) AS mean_ttl FROM packets [{window}] WHERE length <= 3 "
        "GROUP BY src HAVING COUNT(*) >= 5 ORDER BY tiny DESC LIMIT 3",
    ),
    DemoQuery(
        "totals",
        "Totals",
        5,
        1,
        "SELECT COUNT(*) AS packets, SUM(header_size + length) AS bytes, AVG(length) AS mean_length "
        "FROM packets [{window}]",
    ),
)


JOIN = DemoJoin(
    "both_links",
    "On both links",
    "tiny packets of one source on both links in the last 10 s, kept up to date; the latest changes:",
    "SELECT p.src, COUNT(*) AS pairs FROM packets [RANGE 10 SECONDS] AS p JOIN backbone [RANGE 10 SECONDS] AS b "
    "ON p.src = b.src WHERE p.length = 1 AND b.length = 1 GROUP BY p.src ORDER BY pairs DESC LIMIT 3",
)


class Watcher:
    """Subscribes to one query and keeps what the screen shows of it."""

    def __init__(self, query: DemoQuery):
        self._lock = threading.Lock()
        self._delays_s: list[float] = []
        self._standing = Standing(query.name, query.title, query.window, 0, None, None, (), 0.0)

    def take(self, answer: Any) -> None:
        """Receive the answer to a window; called on the stream's thread."""
        now_s, before = time.time(), self._standing
        rows = answer.table.slice(0, ROWS_SHOWN).drop_columns(["window_start", "window_end", "is_revision"])
        with self._lock:
            self._delays_s.append(now_s - answer.window_end.timestamp())
            self._standing = Standing(
                before.name,
                before.title,
                before.window,
                before.answers + 1,
                answer.window_start,
                answer.window_end,
                rows.to_pylist(),
                now_s,
            )

    @property
    def standing(self) -> Standing:
        return self._standing

    def summary(self) -> dict[str, Any]:
        with self._lock:
            median_s = statistics.median(self._delays_s) if self._delays_s else None
        return {
            "query": self._standing.name,
            "window": self._standing.window,
            "answers": self._standing.answers,
            "median staleness at delivery": None if median_s is None else f"{median_s:.2f} s",
        }


class JoinWatcher:
    """Subscribes to the changes of the join, and reads its view for the screen."""

    def __init__(self, join: DemoJoin):
        self._join = join
        self._query: Query | None = None
        self._changes = 0
        self._latest: list[tuple[str, dict[str, Any]]] = []

    def watch(self, query: Query) -> None:
        self._query = query
        query.subscribe(self.take)

    def take(self, batch: Any) -> None:
        """Receive the changes of a tick batch; called on the thread of its ticks."""
        last = batch.table.slice(max(0, batch.table.num_rows - ROWS_SHOWN)).drop_columns(["ts", "exp"]).to_pylist()
        self._latest = [*self._latest, *((row.pop("op"), row) for row in last)][-ROWS_SHOWN:]
        self._changes += batch.table.num_rows

    @property
    def joined(self) -> Joined:
        assert self._query is not None
        view = self._query.view()
        join, rows = self._join, view.arrow().to_pylist()
        return Joined(join.name, join.title, join.window, self._changes, view.window, rows, self._latest)


def run_demo(wr: Windrow, seconds: float, rate: int, interrupts: Interrupts) -> None:
    """Show the demo for `seconds` or until Ctrl-C, then print a summary."""
    out = output()
    watchers, join = [Watcher(query) for query in QUERIES], JoinWatcher(JOIN)
    with Progress("registering six standing queries and a join…") as progress:
        interrupts.background(lambda: _register(wr, rate, watchers, join), stop=lambda: None)
        progress.update("starting the streams…")
        interrupts.background(wr.start, stop=lambda: None)
        progress.update("waiting for the first packets…")
        meter = FlowMeter(wr)
        while meter.read().rows == 0 and not interrupts.wait(REFRESH_S):
            pass
    started_s = time.monotonic()

    def frame() -> tuple[Flow, list[Standing], Joined, float]:
        return meter.read(), [w.standing for w in watchers], join.joined, time.monotonic() - started_s

    show = _on_terminal if out.is_terminal else _as_lines
    show(out, frame, seconds, interrupts)
    elapsed_s = time.monotonic() - started_s
    with Progress("stopping…"):
        wr.stop()
    flow = meter.read()
    say(
        out,
        f"{flow.rows:,} packets since the stream started, shown for {elapsed_s:.0f} s; "
        f"{flow.answers:,} answers, each window once:",
        "bold",
    )
    print_table(out, pa.Table.from_pylist([w.summary() for w in watchers]))
    print_view(out, wr.queries[JOIN.name])
    say(out, "Your own data: docs/tutorial.md goes from JSON files to answers; then `windrow run app.cql`.", "dim")


def _register(wr: Windrow, rate: int, watchers: list[Watcher], join: JoinWatcher) -> None:
    wr.sql(STREAMS.format(rate=rate, backbone_rate=max(1, rate // BACKBONE_SHARE)))
    for query, watcher in zip(QUERIES, watchers, strict=True):
        wr.query(query.name, query.text).subscribe(watcher.take)
    join.watch(wr.query(JOIN.name, JOIN.text))


Frame = Callable[[], tuple[Flow, list[Standing], Joined, float]]


def _on_terminal(out: Console, frame: Frame, seconds: float, interrupts: Interrupts) -> None:
    def screen() -> Any:
        flow, standing, joined, elapsed_s = frame()
        return demo_screen(flow, standing, joined, min(elapsed_s, seconds), seconds, time.time(), out.height)

    with Live(screen(), console=out, auto_refresh=False, vertical_overflow="crop") as live:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not interrupts.wait(REFRESH_S):
            live.update(screen(), refresh=True)


def _as_lines(out: Console, frame: Frame, seconds: float, interrupts: Interrupts) -> None:
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0 and not interrupts.wait(min(LINE_S, left_s)):
        flow, standing, joined, elapsed_s = frame()
        say(out, "\n".join(demo_lines(flow, standing, joined, elapsed_s, time.time())))
