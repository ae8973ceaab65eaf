"""Records the history of a run as JSON lines, which `windrow check-history` reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windrow.engine.isolation.coordinator import Coordinator
from windrow.errors import StateError
from windrow.schedulers.history import Entry
from windrow.schedulers.notation import to_json


@contextmanager
def history_file(coordinator: Coordinator, path: Path) -> Iterator[None]:
    """Within the block, every operation of one-time queries, and of the updates that concern them, is written to a
    file, in order."""
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise StateError(f"cannot write the history to {path}: {error}", remedy="Name another file.") from None

    failures: list[OSError] = []

    def record(entry: Entry) -> None:
        try:
            if not failures:
                file.write(to_json(entry) + "\n")
        except OSError as error:  # the queries and the updates go on
            failures.append(error)

    with file, coordinator.recording(record):
        yield
    if failures:
        raise StateError(
            f"the history in {path} is not whole: {failures[0]}",
            remedy="Free space on its file system, and record again.",
        )
