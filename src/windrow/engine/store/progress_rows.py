"""The progress of a stream in the catalog: a commit saves what has changed, opening reads all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from windrow.catalog.definitions import StreamDef
from windrow.catalog.store import Catalog
from windrow.cql.patterns import parse_pattern
from windrow.engine.progress import StreamProgress, start_of
from windrow.engine.store.source_rows import read_columns, save_columns
from windrow.windows import Ended
from windrow.windows.ended import restored_ends, saved_ends
from windrow.windows.lateness import Lateness
from windrow.windows.promises import Key, Promise, Promises


class ProgressRows:
    """Reads and writes the tables `streams` (its counters), `axes`, `promises` and `source_columns`."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog

    # -- saving, inside a transaction ----------------------------------------------------------

    def save(self, name: str, before: StreamProgress, after: StreamProgress) -> None:
        """Save what has changed of a stream's progress."""
        tx = self._catalog
        if (after.last_batch, after.tick_seq) != (before.last_batch, before.tick_seq):
            tx.execute(
                "UPDATE streams SET last_batch = ?, tick_seq = ? WHERE name = ?",
                (after.last_batch, after.tick_seq, name),
            )
        if after.input_ended != before.input_ended:
            tx.execute("UPDATE streams SET input_ended = ? WHERE name = ?", (after.input_ended, name))
        self._save_frontiers(name, before, after)
        if after.lateness is not before.lateness:
            tx.executemany(
                "UPDATE axes SET lateness = ? WHERE stream = ? AND axis = ?",
                [(json.dumps(one.saved()), name, axis) for axis, one in after.lateness.items()],
            )
        tx.executemany(
            "UPDATE axes SET ticked = ? WHERE stream = ? AND axis = ?",
            [(point, name, axis) for axis, point in after.ticked.items() if point != before.ticked.get(axis)],
        )
        if after.promises is not before.promises:
            self._save_promises(name, before.promises, after.promises)
        if after.columns is not before.columns:
            save_columns(tx, name, before.columns, after.columns)

    def _save_frontiers(self, name: str, before: StreamProgress, after: StreamProgress) -> None:
        for axis, frontier in after.frontiers.items():
            if frontier is before.frontiers[axis] and _beside(after, axis) == _beside(before, axis):
                continue
            least, ended, silent = _beside(after, axis)
            saved = {**frontier.saved(), **saved_ends(ended), **({"silent": silent} if silent else {})}
            self._catalog.execute(
                "INSERT INTO axes (stream, axis, frontier, least) VALUES (?, ?, ?, ?) ON CONFLICT (stream, axis)"
                " DO UPDATE SET frontier = excluded.frontier, least = excluded.least",
                (name, axis, json.dumps(saved), least),
            )

    def _save_promises(self, name: str, before: Promises, after: Promises) -> None:
        tx = self._catalog
        gone = [promise for key, promise in before.held.items() if key not in after.held]
        changed = [promise for key, promise in after.held.items() if before.held.get(key) is not promise]
        tx.executemany(
            "DELETE FROM promises WHERE stream = ? AND axis = ? AND conditions = ? AND for_ever = ?",
            [(name, p.axis, p.text, p.is_for_ever) for p in gone],
        )
        tx.executemany(
            "INSERT INTO promises VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (stream, axis, conditions, for_ever)"
            " DO UPDATE SET bound = excluded.bound, given = excluded.given",
            [(name, p.axis, p.text, p.is_for_ever, p.bound, p.given) for p in changed],
        )
        tx.execute("UPDATE streams SET heard = ? WHERE name = ?", (after.heard, name))

    # -- reading -------------------------------------------------------------------------------

    def read(self, definition: StreamDef) -> StreamProgress:
        """The progress of a stream in the catalog."""
        found = "SELECT last_batch, tick_seq, heard, input_ended FROM streams WHERE name = ?"
        row = self._catalog.row(found, (definition.name,))
        assert row is not None
        progress = self._axes(definition, start_of(definition))
        promises = Promises(self._promises(definition), row["heard"])
        columns = read_columns(self._catalog, definition.name)
        return replace(
            progress,
            last_batch=row["last_batch"],
            tick_seq=row["tick_seq"],
            promises=promises,
            columns=columns,
            input_ended=bool(row["input_ended"]),
        )

    def _axes(self, definition: StreamDef, start: StreamProgress) -> StreamProgress:
        frontiers, ended, lateness = dict(start.frontiers), dict(start.ended), dict(start.lateness)
        least, ticked, silent = dict(start.least), dict(start.ticked), dict(start.silent)
        for row in self._catalog.rows("SELECT * FROM axes WHERE stream = ?", (definition.name,)):
            axis = row["axis"] or definition.attribute
            if axis not in frontiers:
                continue
            saved = json.loads(row["frontier"])
            frontiers[axis] = frontiers[axis].restored(saved)
            ended[axis] = restored_ends(saved)
            silent[axis] = saved.get("silent", 0)
            if row["lateness"] is not None:
                lateness[axis] = Lateness.restored(json.loads(row["lateness"]))
            for held, value in ((least, row["least"]), (ticked, row["ticked"])):
                if value is not None:
                    held[axis] = value
        found = replace(start, frontiers=frontiers, least=least, ticked=ticked, lateness=lateness)
        return replace(found, ended=ended, silent=silent)

    def _promises(self, definition: StreamDef) -> Mapping[Key, Promise]:
        types, held = dict(definition.columns), {}
        for row in self._catalog.rows("SELECT * FROM promises WHERE stream = ? ORDER BY rowid", (definition.name,)):
            conditions = parse_pattern(row["conditions"], types) if row["conditions"] else ()
            promise = Promise(row["axis"], conditions, row["bound"], row["given"])
            held[promise.key] = promise
        return held


def _beside(progress: StreamProgress, axis: str) -> tuple[int | None, tuple[Ended, ...], int]:
    """The progress of an axis that is saved with its frontier: `least`, `ended` and `silent`."""
    return progress.least.get(axis), progress.ended.get(axis, ()), progress.silent.get(axis, 0)
