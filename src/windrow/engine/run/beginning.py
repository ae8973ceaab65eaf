"""Begins to open a state directory: takes the lock, reads the settings, and starts Spark.

Spark's JVM takes seconds to start. This module imports little, so that `windrow.open` can import the rest of Windrow,
which takes a second, while the JVM starts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from windrow.catalog.lock import StateLock
from windrow.catalog.saved_settings import saved_settings
from windrow.catalog.store import Catalog
from windrow.dataplane.session import close_session, open_session
from windrow.logs import quieten_py4j
from windrow.settings import Settings, parse_value


class BegunState:
    """A state directory with its lock, its catalog and its settings, and a Spark session that may still be starting."""

    def __init__(self, state_dir: Path, spark: Any, master: str | None, given: Mapping[str, Any]):
        for name, value in given.items():
            parse_value(name, str(value))
        self.state_dir = state_dir
        with ExitStack() as undo:
            self.lock = StateLock(state_dir)
            self.lock.acquire()
            undo.callback(self.lock.release)
            self.catalog = Catalog(state_dir / "catalog.sqlite")
            undo.callback(self.catalog.close)
            self.settings = _settings(self.catalog, given)
            quieten_py4j()
            self._session = _StartingSession(spark, master, self.settings)
            undo.pop_all()

    def spark(self) -> Any:
        """The session, when it has started. Raises SessionError if it cannot."""
        return self._session.started()

    def abandon(self) -> None:
        """End everything, even if a step fails."""
        with ExitStack() as last_first:
            last_first.callback(self.lock.release)
            last_first.callback(self.catalog.close)
            last_first.callback(self._session.abandon)


class _StartingSession:
    """`open_session` in a thread of its own. A given session is only checked, at once."""

    def __init__(self, spark: Any, master: str | None, settings: Settings):
        self._session: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if spark is not None:
            self._session = open_session(spark, master, settings)
            return
        self._thread = threading.Thread(
            target=self._open, args=(master, settings), name="windrow-spark-start", daemon=True
        )
        self._thread.start()

    def _open(self, master: str | None, settings: Settings) -> None:
        try:
            self._session = open_session(None, master, settings)
        except BaseException as error:
            self._error = error

    def started(self) -> Any:
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._session

    def abandon(self) -> None:
        if self._thread is not None:
            self._thread.join()
        if self._session is not None:
            close_session(self._session)


def _settings(catalog: Catalog, given: Mapping[str, Any]) -> Settings:
    """The stored settings, overridden by those given to `open`."""
    settings = Settings({name: parse_value(name, text) for name, text in saved_settings(catalog).items()})
    for name, value in given.items():
        settings = settings.with_text(name, str(value))
    return settings
