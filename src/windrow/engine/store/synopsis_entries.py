"""Synopses in the catalog: schedules, accumulators, and derivations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from sqlite3 import Row

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockStore
from windrow.engine.progress import SynopsisProgress
from windrow.engine.state import QueryState, SynopsisState
from windrow.optimizer.sharing.derivations import Derivation
from windrow.plan.accumulators import Accumulator, Kind
from windrow.types import SqlType
from windrow.windows import Cuts, CutSchedule


class SynopsisEntries:
    """Reads and writes the tables `synopses`, `synopsis_accumulators` and `derivations`."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks

    # -- saving, inside a transaction ----------------------------------------------------------

    def save(self, stream: str, progress: SynopsisProgress) -> None:
        """Save the schedule of a synopsis, and from which point it keeps each accumulator."""
        tx, plan = self._catalog, progress.plan
        tx.execute(
            "INSERT INTO synopses (id, stream, keys, schedule, kept_from, ranked) VALUES (?,?,?,?,?,?)"
            " ON CONFLICT (id) DO UPDATE SET schedule = excluded.schedule",
            (
                plan.id,
                stream,
                json.dumps([k.sql for k in plan.keys]),
                _schedule_text(plan.schedule),
                progress.kept_from,
                progress.ranked,
            ),
        )
        tx.execute("DELETE FROM synopsis_accumulators WHERE synopsis = ?", (plan.id,))
        tx.executemany(
            "INSERT INTO synopsis_accumulators VALUES (?, ?, ?)", [(plan.id, a, s) for a, s in progress.since.items()]
        )

    def save_derivations(self, query_id: int, derived: Sequence[Derivation]) -> None:
        """Save what a query derives, with the definitions of the base accumulators, whose queries may be dropped."""
        self._catalog.executemany(
            "INSERT INTO derivations VALUES (?, ?, ?, ?, ?)",
            [
                (
                    query_id,
                    d.accumulator.id,
                    *(json.dumps([_saved(a) for a in part]) for part in (d.added, d.subtracted)),
                    d.is_sign,
                )
                for d in derived
            ],
        )

    def drop(self, state: SynopsisState) -> None:
        """Drop a synopsis and its blocks."""
        for row in (*self._blocks.named(state.owner), *self._blocks.named(state.late_owner)):
            self._blocks.release(row.id)
        self._catalog.execute("DELETE FROM synopses WHERE id = ?", (state.plan.id,))

    # -- reading -------------------------------------------------------------------------------

    def rows(self, stream: str) -> list[Row]:
        """The synopses of a stream."""
        return self._catalog.rows("SELECT * FROM synopses WHERE stream = ? ORDER BY id", (stream,))

    def since(self, number: int) -> dict[str, int | None]:
        """The point from which a synopsis keeps each accumulator (None: always), by id."""
        rows = self._catalog.rows("SELECT accumulator, since FROM synopsis_accumulators WHERE synopsis = ?", (number,))
        return {row["accumulator"]: row["since"] for row in rows}

    def derivations(self, query: QueryState) -> tuple[Derivation, ...]:
        """The saved derivations of a query."""
        rows = self._catalog.rows("SELECT * FROM derivations WHERE query = ? ORDER BY rowid", (query.id,))
        mine = {a.id: a for a in query.plan.input.accumulators}
        return tuple(
            Derivation(
                mine[row["accumulator"]], _restored(row["added"]), _restored(row["subtracted"]), bool(row["is_sign"])
            )
            for row in rows
        )


def _saved(accumulator: Accumulator) -> list[str | None]:
    kind = None if accumulator.type is None else accumulator.type.name
    return [accumulator.kind.name, accumulator.arg, kind, accumulator.condition]


def _restored(text: str) -> tuple[Accumulator, ...]:
    return tuple(
        Accumulator(Kind[kind], arg, None if type_ is None else SqlType(type_), condition)
        for kind, arg, type_, condition in json.loads(text)
    )


def _schedule_text(schedule: CutSchedule) -> str:
    return json.dumps([[start, list(map(list, cuts.progressions))] for start, cuts in schedule.regimes])


def schedule_of(text: str) -> CutSchedule:
    regimes = ((start, Cuts(tuple((p, q) for p, q in pairs))) for start, pairs in json.loads(text))
    return CutSchedule(tuple(regimes))
