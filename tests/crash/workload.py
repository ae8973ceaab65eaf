"""The program of a child process of the crash tests; it is killed and restarted until it finishes.

    python workload.py ROOT

ROOT holds `in/` (numbered Parquet files, one per micro-batch) and `setup.json` (statements, settings, whether to
subscribe). The program adds the state directory, the sinks' files and the callbacks' log. It keeps no state in memory,
so it may be killed and restarted at any moment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def setup_of(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "setup.json").read_text())
    return found


def prepare(wr: Any, root: Path) -> None:
    """Create streams, queries and readers that do not exist yet, and subscribe."""
    setup = setup_of(root)
    for statement in setup["statements"]:
        wr.sql(statement)
    for query in setup["subscribed"]:
        wr.queries[query].subscribe(lambda answer: _log(root, answer))
    for reader, column in setup["readers"]:
        read(wr, reader, column)


def read(wr: Any, reader: str, column: str) -> Any:
    """The use of a window store over `s` by this reader, which is made if there is none yet."""
    from windrow.dataplane.stores import KeptColumn
    from windrow.types import SqlType

    stores, stream = wr._engine.opened.stores, wr._engine.manager.stream("s")
    with stream.batch_lock:
        kept = KeptColumn(column, SqlType("STRING"))
        return stores.use(reader) or stores.need(stream, reader, "ts", [kept], None, [kept])


def _log(root: Path, answer: Any) -> None:
    """Log one line per delivery; it is on disk when the callback returns."""
    line = json.dumps({"key": answer.key, "rows": answer.table.to_pylist()}, default=str)
    with open(root / "callbacks.log", "a", encoding="utf-8") as out:
        out.write(line + "\n")
        out.flush()
        os.fsync(out.fileno())


def main(root: Path) -> None:
    import windrow

    wr = windrow.open(root / "state", master="local[2]", settings=setup_of(root)["settings"])
    prepare(wr, root)
    (root / "ready").write_text(str(os.getpid()))
    wr.run_available(close=True)
    wr.close()
    (root / "done").write_text("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
