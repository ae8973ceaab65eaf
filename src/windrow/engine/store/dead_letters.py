"""Dead letters in the catalog: the latest are kept, and all are counted by reason."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Row
from typing import Any

from windrow.catalog.definitions import StreamDef
from windrow.catalog.store import Catalog
from windrow.dataplane.ingest.admission import LATE, Admission
from windrow.dataplane.ingest.deposit import DeadLetter
from windrow.dataplane.ingest.promised import bound_of_record, point_in_record
from windrow.settings import Settings
from windrow.windows import max_or_none


class DeadLetters:
    """Reads and writes the tables `dead_letters` and `dead_letter_counts`."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog

    def add(
        self, stream: StreamDef, batch_id: int, dead: Sequence[DeadLetter], admission: Admission, settings: Settings
    ) -> None:
        """Add the dead letters of a micro-batch; the first ones are kept with their records. Call it inside a
        transaction."""
        letters = [(letter, _late_by(letter, admission, stream)) for letter in sorted(dead, key=_order)]
        self._insert(stream.name, batch_id, letters, settings)

    def _insert(
        self, stream: str, batch_id: int, letters: Sequence[tuple[DeadLetter, int | None]], settings: Settings
    ) -> None:
        """Add dead letters, each with how late it was."""
        tx, cap = self._catalog, settings.integer("dead_letters_per_batch")
        kept = 0
        for letter, late_by in letters:
            tx.execute(
                "INSERT INTO dead_letter_counts VALUES (?, ?, ?)"
                " ON CONFLICT (stream, reason) DO UPDATE SET count = count + excluded.count",
                (stream, letter.reason, letter.count),
            )
            if kept >= cap or letter.record is None:
                continue
            tx.execute(
                "INSERT INTO dead_letters (stream, batch, reason, record, point, late_by, count, file, line)"
                " VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    stream,
                    batch_id,
                    letter.reason,
                    letter.record,
                    letter.point,
                    late_by,
                    letter.count,
                    letter.file,
                    letter.line,
                ),
            )
            kept += 1
        tx.execute(
            "DELETE FROM dead_letters WHERE stream = ? AND id <="
            " (SELECT id FROM dead_letters WHERE stream = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (stream, stream, settings.integer("retained_dead_letters")),
        )

    def refuse(
        self, stream: str, batch_id: int, reason: str, rows: Sequence[tuple[str, int]], settings: Settings
    ) -> None:
        """Add admitted tuples that a table could not take, each with its point; the first ones are kept with their
        records. Call it inside a transaction."""
        letters = [DeadLetter(reason, record, point, 1) for record, point in rows]
        self._insert(stream, batch_id, [(one, None) for one in letters], settings)

    def kept(self, stream: str) -> list[Row]:
        """The dead letters kept, in order."""
        return self._catalog.rows(
            "SELECT batch, reason, record, point, late_by, count, file, line FROM dead_letters WHERE stream = ?"
            " ORDER BY id",
            (stream,),
        )

    def counts(self, stream: str) -> dict[str, int]:
        """The number of all dead letters, by reason."""
        rows = self._catalog.rows("SELECT reason, count FROM dead_letter_counts WHERE stream = ?", (stream,))
        return {row["reason"]: row["count"] for row in rows}


def _order(letter: DeadLetter) -> tuple[Any, ...]:
    """Dead letters with a record first."""
    text = (letter.reason, letter.record or "", letter.file or "", letter.line or 0)
    return letter.record is None, letter.point or 0, *text


def _late_by(letter: DeadLetter, admission: Admission, stream: StreamDef) -> int | None:
    """How far a late tuple was below the frontier of the first window attribute, or below the promise that concerns
    it."""
    if letter.reason != LATE or letter.point is None or not admission.bounds:
        return None
    bound = admission.bounds[0]
    frontier, column = bound.frontier, bound.punctuated.column
    promises = [promise for promise in admission.promises if promise.axis == column]
    if promises and letter.record is not None:
        frontier = max_or_none(frontier, bound_of_record(promises, letter.record, dict(stream.columns)))
    late_by = None if frontier is None else max(0, frontier - letter.point)
    return late_by or _late_on_another(letter, admission) or late_by


def _late_on_another(letter: DeadLetter, admission: Admission) -> int | None:
    """How far it was below the frontier of the first other window attribute on which it was late."""
    for bound in admission.bounds[1:] if letter.record is not None else ():
        point = point_in_record(letter.record or "", bound.punctuated)
        if point is not None and bound.frontier is not None and point < bound.frontier:
            return bound.frontier - point
    return None
