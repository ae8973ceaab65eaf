"""The packets of part (ii): panes that come again after n panes, so that every scheduler meets the same input.

A stream is complete up to its last packet. So each update ends with the first packet of the pane after it, which lies on
the edge between the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from common import SOURCES, source_names

from isolating.workload import ONE_TIME, TOP_K, Asked

K = 10
CHOSEN = tuple(range(0, SOURCES, SOURCES // 10))
"""The addresses that one-time queries sum up, by number."""

NAMES = source_names()
Rows = list[dict[str, object]]


def text_of(asked: Asked, stream: str, pane_ms: int) -> str:
    """The SELECT of a query."""
    window = f"FROM {stream} [RANGE {asked.panes * pane_ms}]"
    if asked.kind == ONE_TIME:
        names = ", ".join(f"'{NAMES[i]}'" for i in CHOSEN)
        return f"SELECT COUNT(*) AS n, SUM(length) AS bytes {window} WHERE src IN ({names})"
    if asked.kind == TOP_K:
        return f"SELECT src, COUNT(*) AS n {window} GROUP BY src ORDER BY n DESC, src LIMIT {K}"
    return f"SELECT src, SUM(length) AS bytes {window} GROUP BY src ORDER BY src"


class LivePackets:
    """Pane i has rows[i mod n] packets, and begins at i·pane_ms."""

    def __init__(self, rows: Sequence[int], pane_ms: int, seed: int = 7):
        random = np.random.default_rng(seed)
        self.pane_ms = pane_ms
        self.rows = tuple(rows)
        self.panes = len(rows)
        self._points = [np.arange(count) * pane_ms // count for count in rows]
        self._codes = [random.integers(0, SOURCES, count) for count in rows]
        self._lengths = [random.integers(1, 101, count) for count in rows]
        self._counts = [np.bincount(codes, minlength=SOURCES) for codes in self._codes]
        self._sums = [
            np.bincount(codes, lengths, SOURCES).astype(np.int64)
            for codes, lengths in zip(self._codes, self._lengths, strict=True)
        ]

    def update(self, pane: int) -> pa.Table:
        """What completes a pane: its packets without the first, which came before, and the first of the next pane."""
        own = self._packets(pane)
        return pa.concat_tables([own if pane == 0 else own.slice(1), self._packets(pane + 1).slice(0, 1)])

    def expected(self, asked: Asked, instant: int) -> Rows:
        """The answer of a query as of an instant, which ends a pane."""
        last, rest = divmod(instant, self.pane_ms)
        if rest:
            raise ValueError(f"no pane ends at {instant}")
        panes = [pane % self.panes for pane in range(max(0, last - asked.panes), last)]
        counts, sums = (np.sum([by_pane[i] for i in panes], axis=0) for by_pane in (self._counts, self._sums))
        if asked.kind == ONE_TIME:
            return [{"n": int(counts[[*CHOSEN]].sum()), "bytes": int(sums[[*CHOSEN]].sum())}]
        seen = [i for i in range(SOURCES) if counts[i]]
        if asked.kind == TOP_K:
            best = sorted(seen, key=lambda i: (-counts[i], NAMES[i]))[:K]
            return [{"src": str(NAMES[i]), "n": int(counts[i])} for i in best]
        return [{"src": str(NAMES[i]), "bytes": int(sums[i])} for i in sorted(seen, key=lambda i: str(NAMES[i]))]

    def _packets(self, pane: int) -> pa.Table:
        i = pane % self.panes
        return pa.table(
            {
                "t": pa.array(pane * self.pane_ms + self._points[i]),
                "src": pa.array(NAMES[self._codes[i]]),
                "length": pa.array(self._lengths[i].astype(np.int32)),
            }
        )
