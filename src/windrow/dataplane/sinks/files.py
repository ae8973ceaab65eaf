"""What the file sinks share: syncing, and errors that name the sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windrow.errors import SinkError


@contextmanager
def reporting(query: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SinkError(
            f"query '{query}' could not write to {path}: {error.strerror or error}",
            remedy="Free space or mend the permissions; the answers are kept and written then.",
        ) from error
