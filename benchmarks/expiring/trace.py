"""Packets on three outgoing links, with the properties of the trace in section 6 of Golab and Özsu, SIGMOD 2005.

One packet comes per link and unit of time. A link has 2,000 sources, each with ten destinations: 20,000 pairs. How often
sources meet depends on the length of the windows, so there is a trace per length, such that

- the join of ftp packets of links 1 and 2 has as many results as either of its inputs has rows, and that of telnet
  packets ten times as many: only some of their packets have a source that both links have;
- link 3 has packets of link 1's sources so rarely that about 40% of the results of link 1 NOT EXISTS link 3 are withdrawn
  before their end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.kept.measured_facts import looked_at
from windrow.optimizer.facts import Facts, StreamFacts

SOURCES, DESTINATIONS, COMMON = 2_000, 10, 1_000
FTP, TELNET, OTHER = 0, 1, 2
SHARES = {FTP: 0.1, TELNET: 0.3}
"""The part of a link's packets that are of a protocol."""

RESULTS = {FTP: 1.0, TELNET: 10.0}
"""The results of a join, in rows of an input of ftp packets."""

RARE = 0.62
"""How many packets of one of link 1's sources a window of link 3 holds, on average."""

POINT = "__t"


@dataclass(frozen=True)
class Trace:
    """The packets of all links, for windows of `window` units; `count` per link."""

    window: int
    count: int
    seed: int = 17

    @cached_property
    def links(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """By link: the point, source, destination, protocol and length of each packet."""
        return self._link(0), self._link(1), self._link(2)

    @cached_property
    def facts(self) -> Facts:
        """What the engine would measure of a window: rates, distinct values, shares of protocols, samples of values."""
        found = {}
        for i, rows in enumerate(self.links, 1):
            window = rows.slice(0, self.window)
            values = {name: window.column(name) for name in ("src", "dst", "length")}
            passing = {f"protocol = {kind}": pc.equal(window.column("protocol"), kind) for kind in SHARES}
            found[f"link{i}"] = looked_at({**values, **passing}, StreamFacts(1.0))
        return found

    def _link(self, link: int) -> pa.Table:
        rng = np.random.default_rng([self.seed, self.window, link])
        protocol = rng.choice([FTP, TELNET, OTHER], self.count, p=[0.1, 0.3, 0.6])
        source = self._joined(rng, link, protocol) if link < 2 else self._rare(rng)
        destination = source * DESTINATIONS + rng.integers(0, DESTINATIONS, self.count)
        columns = {"src": source, "dst": destination, "protocol": protocol.astype(np.int64)}
        length = rng.integers(40, 1_500, self.count)
        return pa.table({POINT: np.arange(self.count), **columns, "length": length})

    def _joined(self, rng: np.random.Generator, link: int, protocol: np.ndarray) -> np.ndarray:
        """Sources 0 to COMMON − 1 are on both links; link i has its own from (i + 1) · COMMON on."""
        source = rng.integers(0, SOURCES - COMMON, self.count) + (link + 1) * COMMON
        inputs = SHARES[FTP] * self.window
        for kind, share in SHARES.items():
            # With a part m of both inputs on c common sources there are (share · window · m)² / c results.
            pairs, wanted = (share * self.window) ** 2, RESULTS[kind] * inputs
            sources = max(1, min(COMMON, int(pairs / wanted)))
            part = min(1.0, (wanted * sources / pairs) ** 0.5)
            meets = (protocol == kind) & (rng.random(self.count) < part)
            source[meets] = rng.integers(0, sources, int(meets.sum()))
        return source

    def _rare(self, rng: np.random.Generator) -> np.ndarray:
        """Link 3's own sources, and sometimes one of link 1's."""
        source = rng.integers(0, SOURCES, self.count) + 3 * COMMON
        rare = rng.random(self.count) < min(1.0, RARE * SOURCES / self.window)
        source[rare] = rng.integers(0, SOURCES, int(rare.sum()))
        return source
