"""Files that have stopped a stream, in the catalog."""

from __future__ import annotations

from windrow.catalog.store import Catalog


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
