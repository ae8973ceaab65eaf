"""The Parquet sink: a directory with one file per tick batch that has answers, or one for a view. Exactly once."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq

from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.files import check_directory, reporting, sweep_stages
from windrow.dataplane.sinks.outputs import DirectoryOutput, may_sweep, take_output
from windrow.dataplane.sinks.ownership import Claim
from windrow.dataplane.sinks.places import refuse_special
from windrow.durable import sync


class ParquetSink:
    """Stages `.windrow-<query>-<seq>.staged` and publishes it by renaming it to `<query>-<seq>.parquet`. `replaces`: a
    stage is the whole content, and there is one file, number 0, which it replaces."""

    def __init__(
        self, query: str, file_name: str, directory: str | Path, claim: Claim | None = None, replaces: bool = False
    ):
        self._query = query
        self._name = file_name
        self._directory = Path(directory)
        self._claim = claim
        self._replaces = replaces
        self._is_taken = claim is None
        self.output = DirectoryOutput(query, file_name, self._directory)

    def check(self) -> None:
        """Raise SinkError if the directory cannot be written; called when the query is created."""
        with reporting(self._query, self._directory, kept=False):
            refuse_special(self._query, self._directory)
            check_directory(self._directory)

    def _take(self) -> None:
        """Before the first write: make sure that the files are this query's."""
        if not self._is_taken and self._claim is not None:
            take_output(self.output, self._claim)
            self._is_taken = True

    def stage(self, batch: AnswerBatch, seq: int) -> str:
        name = f"{self._name}-{seq:012d}"
        staged = self._directory / f".windrow-{name}.staged"
        with reporting(self._query, self._directory):
            self._take()
            self._directory.mkdir(parents=True, exist_ok=True)
            pq.write_table(plain(batch.table), staged)
            sync(staged)
            sync(self._directory)
        return name

    def publish(self, entry: str) -> None:
        staged = self._directory / f".windrow-{entry}.staged"
        with reporting(self._query, self._directory):
            self._take()
            if staged.exists():
                name = f"{self._name}-{0:012d}" if self._replaces else entry
                os.replace(staged, self._directory / f"{name}.parquet")
                sync(self._directory)

    def sweep(self) -> None:
        if may_sweep(self.output, self._claim):
            sweep_stages(self._directory, self._name)
