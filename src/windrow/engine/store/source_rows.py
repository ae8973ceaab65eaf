"""What is known of a stream's source, in the catalog: its columns, and the files that have stopped it."""

from __future__ import annotations

from windrow.catalog.store import Catalog
from windrow.dataplane.sources.columns.source_columns import SourceColumns, UndeclaredColumn

_MORE = ""
"""Stands in place of a name for undeclared columns beyond those that are kept."""


def save_columns(tx: Catalog, stream: str, before: SourceColumns, after: SourceColumns) -> None:
    """Save what has changed, inside a transaction."""
    rows: list[tuple[str, str, str | None, int | None, str | None]] = [
        (stream, name, None, None, None) for name in after.found - before.found
    ]
    rows += [
        (stream, one.name, one.type, one.files, one.first_file)
        for name, one in after.undeclared.items()
        if before.undeclared.get(name) != one
    ]
    if after.more and not before.more:
        rows.append((stream, _MORE, None, None, None))
    tx.executemany(
        "INSERT INTO source_columns VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (stream, name) DO UPDATE SET files = excluded.files",
        rows,
    )


def read_columns(catalog: Catalog, stream: str) -> SourceColumns:
    found, undeclared, more = set[str](), dict[str, UndeclaredColumn](), False
    for row in catalog.rows("SELECT * FROM source_columns WHERE stream = ? ORDER BY rowid", (stream,)):
        if row["name"] == _MORE:
            more = True
        elif row["files"] is None:
            found.add(row["name"])
        else:
            undeclared[row["name"]] = UndeclaredColumn(row["name"], row["type"], row["files"], row["first_file"])
    return SourceColumns(frozenset(found), undeclared, more)


class BadFiles:
    """Reads and writes the table `bad_files`."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog

    def add(self, stream: str, file: str, cause: str) -> None:
        with self._catalog.transaction() as tx:
            tx.execute("INSERT OR REPLACE INTO bad_files VALUES (?, ?, ?)", (stream, file, cause))

    def cause(self, stream: str, file: str) -> str | None:
        """Why the file stopped the stream; None if it did not."""
        found = self._catalog.value("SELECT cause FROM bad_files WHERE stream = ? AND file = ?", (stream, file))
        return None if found is None else str(found)
