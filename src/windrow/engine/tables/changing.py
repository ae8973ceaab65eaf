"""What a statement does to a table: pure functions from its rows to the rows that it removes and adds.

A key is unique and never NULL. INSERT of a key that exists is an error; `upsert` replaces its row. A table that is NON
RETROACTIVE refuses a key that was deleted before: results of the past are joined with it, and a new row of that name
would be taken for the old one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.catalog.relations import TableDef
from windrow.engine.tables.stored import TableVersion, changed, keys_in
from windrow.errors import TableError
from windrow.operators.tables.rows import flat, numbered, same, taken
from windrow.synopses.cells.arrays import Mask
from windrow.types import value_text

_TO_UPSERT = "To change rows, use UPDATE; LOAD, and in Python wr.table(…).upsert(rows), replace them."


def inserted(definition: TableDef, version: TableVersion, rows: pa.Table, replaces: bool = False) -> pa.Table:
    """The change by new rows. `replaces`: a row with the same key goes, and of several new ones the last counts."""
    keys = keys_in(rows, definition)
    _refuse_null_keys(definition, rows)
    ids, firsts = numbered(keys, rows.num_rows)
    if firsts.size < rows.num_rows:
        if not replaces:
            repeated = int(np.flatnonzero(firsts[ids] != np.arange(rows.num_rows))[0])
            raise _refused(definition, rows, repeated, "is given twice", "Keep one of the rows. " + _TO_UPSERT)
        last = np.zeros(firsts.size, np.int64)
        last[ids] = np.arange(rows.num_rows)
        rows = taken(rows, np.sort(last))
        keys = keys_in(rows, definition)
    at = version.rows.find(keys, rows.num_rows)
    if not replaces and (at >= 0).any():
        raise _refused(definition, rows, int(np.flatnonzero(at >= 0)[0]), "exists already", _TO_UPSERT)
    _refuse_gone(definition, version, rows)
    return changed(definition, version.rows.take(at[at >= 0], definition.schema), rows)


def not_there(definition: TableDef, version: TableVersion, rows: pa.Table) -> pa.Table:
    """New rows without those that the table has with the same values."""
    _refuse_null_keys(definition, rows)
    at = version.rows.find(keys_in(rows, definition), rows.num_rows)
    known, met = version.rows.take(at[at >= 0], definition.schema), taken(rows, at >= 0)
    keep = at < 0
    keep[at >= 0] = ~same(known.columns, met.select(known.column_names).columns, met.num_rows)
    return taken(rows, keep)


def updated(definition: TableDef, version: TableVersion, old: pa.Table, new: pa.Table, moves_keys: bool) -> pa.Table:
    """The change from some rows of the table to others, row by row. `moves_keys`: keys may be others."""
    if moves_keys:
        _refuse_null_keys(definition, new)
        ids, firsts = numbered(keys_in(new, definition), new.num_rows)
        if firsts.size < new.num_rows:
            again = int(np.flatnonzero(firsts[ids] != np.arange(new.num_rows))[0])
            raise _refused(definition, new, again, "would be that of two rows", "Give each row a key of its own.")
        left = version.rows.put(
            old.slice(0, 0).select(definition.schema.names), version.rows.find(keys_in(old, definition), old.num_rows)
        )
        met = np.flatnonzero(left.find(keys_in(new, definition), new.num_rows) >= 0)
        if met.size:
            raise _refused(definition, new, int(met[0]), "exists already", "Give each row a key of its own.")
        _refuse_gone(definition, version, new)
    return changed(definition, old, new)


def deleted(definition: TableDef, version: TableVersion, keys: pa.Table) -> pa.Table:
    """The change by removing the rows with these keys; keys that no row has are left out."""
    at = version.rows.find(keys_in(keys, definition), keys.num_rows)
    found = version.rows.take(np.unique(at[at >= 0]), definition.schema)
    return changed(definition, found, found.slice(0, 0))


def refuse_misfits(
    definition: TableDef, columns: Sequence[tuple[str, Mask]], shown: Sequence[object] | None = None
) -> None:
    """Raise if a value does not fit its column."""
    for name, misfits in columns:
        at = np.flatnonzero(misfits)
        if at.size:
            kind = dict(definition.columns)[name]
            what = f"{value_text(shown[int(at[0])])}" if shown is not None else "a value"
            raise TableError(
                f"{what} does not fit column '{name}' of table '{definition.name}', which is {kind}",
                remedy="Nothing was changed. CAST or ROUND it to a value that fits.",
            )


def _refuse_null_keys(definition: TableDef, rows: pa.Table) -> None:
    for name in definition.key:
        if rows.column(name).null_count:
            raise TableError(
                f"'{name}' is a key of table '{definition.name}', and cannot be NULL",
                remedy="Nothing was changed. Give every row a value for it.",
            )


def _refuse_gone(definition: TableDef, version: TableVersion, rows: pa.Table) -> None:
    if not version.gone.count:
        return
    met = np.flatnonzero(version.gone.find(keys_in(rows, definition), rows.num_rows) >= 0)
    if met.size:
        raise _refused(
            definition,
            rows,
            int(met[0]),
            "was deleted before, and the table is NON RETROACTIVE: earlier results are joined with the old row",
            "Take a new key, or DROP TABLE and create it again. A table without NON RETROACTIVE lets keys come back.",
        )


def _refused(definition: TableDef, rows: pa.Table, row: int, why: str, remedy: str) -> TableError:
    parts = [f"{name} = {value_text(flat(rows.column(name))[row].as_py())}" for name in definition.key]
    return TableError(
        f"the key {', '.join(parts)} of table '{definition.name}' {why}", remedy=f"Nothing was changed. {remedy}"
    )
