"""Retained answers: the parts of blocks that hold them, how many are kept, and their compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from sqlite3 import Row

import pyarrow as pa

from windrow.catalog.store import Catalog
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockStore

LARGE_BLOCK_BYTES = 256 << 10
"""Blocks of answers of at least this size are not merged again."""


MOST_FOLDED = 1000
"""The most blocks merged, and so mapped, at a time."""


@dataclass(frozen=True)
class ListedAnswers:
    """A query's answers as of one commit: the latest answered window end, why the query is suspended if it is, and
    the parts (block, offset, length, rows) in order."""

    last_end: int | None
    error: str | None
    parts: tuple[tuple[str, int, int, int], ...]

    @property
    def rows(self) -> int:
        return sum(part[3] for part in self.parts)


class AnswersKept:
    """Reads and writes the table `answers`."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks
        self._held: dict[int, int] = {}

    def listed(self, query_ids: Collection[int]) -> dict[int, ListedAnswers]:
        """The answers of queries, all as of the same commit; a query that was dropped is not among them."""
        rows = self._catalog.rows(
            "SELECT q.id, q.last_end, q.error, b.path, a.offset, a.length, a.rows FROM queries q"
            " LEFT JOIN answers a ON a.query = q.id LEFT JOIN blocks b ON b.id = a.block"
            f" WHERE q.id IN ({','.join('?' * len(query_ids))}) ORDER BY q.id, a.id",
            list(query_ids),
        )
        found: dict[int, ListedAnswers] = {}
        for number, group in groupby(rows, key=lambda row: int(row["id"])):
            of_query = list(group)
            parts = tuple((r["path"], r["offset"], r["length"], r["rows"]) for r in of_query if r["path"] is not None)
            found[number] = ListedAnswers(of_query[0]["last_end"], of_query[0]["error"], parts)
        return found

    def add(self, query_id: int, block_id: int, stored: tuple[int, int, int, int, int], rows: int, keep: int) -> None:
        """Add the part of an answer with `rows` rows, and retire older parts. Call it inside a transaction."""
        self._catalog.execute(
            "INSERT INTO answers (query, block, offset, length, rows, first_end, last_end) VALUES (?,?,?,?,?,?,?)",
            (query_id, block_id, *stored),
        )
        # If this part is truncated, older parts would leave a gap: retire them all.
        self._retire(query_id, stored[2], 0 if stored[2] < rows else keep)

    def _retire(self, query_id: int, added: int, keep: int) -> None:
        """Drop the oldest parts while newer ones hold `keep` rows; the cost grows with the parts dropped."""
        if query_id in self._held:
            held = self._held[query_id] + added
        else:
            held = int(self._catalog.value("SELECT sum(rows) FROM answers WHERE query = ?", (query_id,)))
        while True:
            oldest = self._catalog.rows(
                "SELECT id, block, rows FROM answers WHERE query = ? ORDER BY id LIMIT 2", (query_id,)
            )
            if len(oldest) < 2 or held - oldest[0]["rows"] < keep:
                break
            held -= oldest[0]["rows"]
            self._catalog.execute("DELETE FROM answers WHERE id = ?", (oldest[0]["id"],))
            self._blocks.release(oldest[0]["block"])
        self._catalog.on_commit(lambda: self._held.__setitem__(query_id, held))

    def compact(self, limit: int, keep: int) -> None:
        """Merge runs of small blocks if there are more than `limit`; each tick batch writes one.

        A merged part has at most an eighth of the rows that a query may keep, since parts are retired as a whole.
        """
        small = "SELECT count(*) FROM blocks WHERE owner = 'answers' AND bytes < ?"
        if self._catalog.value(small, (LARGE_BLOCK_BYTES,)) <= limit:
            return
        with self._catalog.transaction():
            for run in self._runs(max(keep // 8, 1)):
                self._fold(run)

    def _runs(self, most_rows: int) -> Iterator[list[int]]:
        """Runs of consecutive blocks that may be merged."""
        parts = self._catalog.rows(
            "SELECT b.id, b.bytes, a.query, a.rows FROM blocks b JOIN answers a ON a.block = b.id ORDER BY b.id"
        )
        run: list[int] = []
        held: Counter[int] = Counter()
        for block, group in groupby(parts, key=lambda part: int(part["id"])):
            listed = list(group)
            is_large = listed[0]["bytes"] >= LARGE_BLOCK_BYTES
            is_full = is_large or len(run) == MOST_FOLDED
            if run and (is_full or any(held[p["query"]] + p["rows"] > most_rows for p in listed)):
                yield run
                run, held = [], Counter()
            if not is_large:
                run.append(block)
                held.update({p["query"]: p["rows"] for p in listed})
        yield run

    def _fold(self, run: Sequence[int]) -> None:
        """Merge blocks into one; each query gets one part, in the place of its first."""
        if len(run) < 2:
            return
        tx, marks = self._catalog, ",".join("?" * len(run))
        rows = tx.rows(
            "SELECT a.*, b.path FROM answers a JOIN blocks b ON b.id = a.block"
            f" WHERE a.block IN ({marks}) ORDER BY a.query, a.id",
            run,
        )
        parts = [list(group) for _, group in groupby(rows, key=lambda row: int(row["query"]))]
        tables = [pa.concat_tables(map(self._read, part)).combine_chunks() for part in parts]
        ref, places = self._blocks.write_many("answers", tables)
        crash_point("answers-compaction-written")
        block = self._blocks.add(ref, refs=len(parts))
        for part, place, table in zip(parts, places, tables, strict=True):
            tx.execute(
                "UPDATE answers SET block = ?, offset = ?, length = ?, rows = ?, last_end = ? WHERE id = ?",
                (block, *place, table.num_rows, part[-1]["last_end"], part[0]["id"]),
            )
            tx.executemany("DELETE FROM answers WHERE id = ?", [(p["id"],) for p in part[1:]])
        for row in rows:
            self._blocks.release(row["block"])

    def _read(self, part: Row) -> pa.Table:
        return self._blocks.read_part(part["path"], part["offset"], part["length"])

    def drop(self, query_id: int) -> None:
        """Drop the answers of a query, also those that wait for its sink. Call it inside a transaction."""
        for row in self._catalog.rows("SELECT id, block FROM outbox WHERE query = ?", (query_id,)):
            self._catalog.execute("DELETE FROM outbox WHERE id = ?", (row["id"],))
            if row["block"] is not None:
                self._blocks.release(row["block"])
        for row in self._catalog.rows("SELECT id, block FROM answers WHERE query = ?", (query_id,)):
            self._catalog.execute("DELETE FROM answers WHERE id = ?", (row["id"],))
            self._blocks.release(row["block"])
        self._catalog.on_commit(lambda: self._forget(query_id))

    def _forget(self, query_id: int) -> None:
        self._held.pop(query_id, None)
