"""Takes in the micro-batches of files: all of a file, or nothing of it.

A file that cannot be read stops the stream (`on_bad_file 'stop'`), or it is a dead letter and the others are read
(`'skip'`). Both before anything of the micro-batch is committed, so no part of a bad file is ever admitted.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from windrow.dataplane.ingest.deposit import DeadLetter
from windrow.dataplane.sources.bad_files import BadFile, bad_file, is_misread, left_out, without_files
from windrow.dataplane.sources.columns.batch_columns import with_checked_columns
from windrow.dataplane.sources.files import read_again, skips_bad_files
from windrow.dataplane.sources.partitions import are_shifted
from windrow.dataplane.sources.source_log import files_of_batch
from windrow.engine.intake.deposits import Depositor
from windrow.engine.state import StreamState
from windrow.engine.store.source_rows import BadFiles
from windrow.errors import SourceError
from windrow.settings import Settings

log = logging.getLogger("windrow")

UNREADABLE = "unreadable file"
"""The reason of a dead letter that is a skipped file."""

VANISHED = "it vanished before it was read"


class WholeFiles:
    """Gives the depositor micro-batches, and settles what becomes of files that cannot be read."""

    def __init__(self, depositor: Depositor, known: BadFiles):
        self._depositor = depositor
        self._known = known

    def deposit(
        self, stream: StreamState, df: Any, batch_id: int, settings: Settings, columnar: bool, size: int | None = None
    ) -> None:
        """Take in one micro-batch. Raises SourceError if a file cannot be read and is not skipped."""
        if stream.definition.statement.source.lower() != "files":
            try:
                self._depositor.deposit(stream, df, batch_id, settings, columnar, size)
            except Exception as error:
                bad = bad_file(error)
                if bad is None:
                    raise
                raise self._stopped(stream, bad) from error
        elif batch_id > stream.last_batch:
            self._deposit_files(stream, df, batch_id, settings, columnar)

    def _deposit_files(self, stream: StreamState, df: Any, batch_id: int, settings: Settings, columnar: bool) -> None:
        definition = stream.definition
        uris = files_of_batch(stream.directory / "checkpoint", batch_id)
        absent = left_out(df, uris) if uris else {}  # deposit() has no files
        bad = {uri: self._gone(stream, uri) for uri, is_there in absent.items() if not is_there}
        again = absent or is_misread(uris) or uris and are_shifted(df.columns, definition, uris)
        rows = without_files(df, definition, uris, bad) if again else df
        failed: set[str] = set()
        while True:
            try:
                letters = tuple(DeadLetter(UNREADABLE, one.cause, None, 1, one.path) for one in bad.values())
                good = [uri for uri in uris if uri not in bad]
                matched, columns = with_checked_columns(definition, rows, good, stream.progress.columns)
                # The rows of text files have their places.
                places = partial(read_again, df.sparkSession, definition, good) if columnar and good else None
                self._depositor.deposit(
                    stream, matched, batch_id, settings, columnar, None, letters, columns, None if again else places
                )
                break
            except Exception as error:
                found = bad_file(error)
                if found is None:
                    raise
                if not skips_bad_files(definition) or found.uri not in uris or found.uri in bad:
                    raise self._stopped(stream, found) from error
                if found.uri in failed:  # it failed twice: no passing trouble
                    bad[found.uri] = found
                    rows = without_files(df, definition, uris, bad)
                failed.add(found.uri)
        for one in bad.values():
            log.warning("stream '%s' has skipped the file %s: %s", stream.name, one.path, one.cause)

    def _gone(self, stream: StreamState, uri: str) -> BadFile:
        """A file that is gone. Raises if the stream must not skip it: with 'stop', only a file that has stopped the
        stream may be removed."""
        before = self._known.cause(stream.name, uri)
        if before is not None:
            return BadFile(uri, f"it was removed, after: {before}")
        if skips_bad_files(stream.definition):
            return BadFile(uri, VANISHED)
        raise SourceError(
            f"stream '{stream.name}' cannot read {BadFile(uri, '').path}: {VANISHED}",
            remedy="Put it back, or put an empty file in its place to go on without it; nothing else is lost.",
        )

    def _stopped(self, stream: StreamState, bad: BadFile) -> SourceError:
        self._known.add(stream.name, bad.uri, bad.cause)
        return SourceError(
            f"stream '{stream.name}' cannot read {bad.path}: {bad.cause}",
            remedy="Replace the file, or remove it to go on without it. Nothing of it was admitted; the stream goes on"
            " where it stopped. To skip such files from now on, repeat CREATE STREAM with"
            " OPTIONS (…, on_bad_file 'skip').",
        )
