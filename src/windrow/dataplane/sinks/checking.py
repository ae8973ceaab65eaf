"""The check of a sink when its query is created: may it write to its path, and what does `overwrite` delete first?"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from windrow.cql.statements import SinkClause
from windrow.dataplane.sinks.files import reporting
from windrow.dataplane.sinks.jsonl import JsonLinesSink
from windrow.dataplane.sinks.modes import SinkMode
from windrow.dataplane.sinks.outputs import check_output
from windrow.dataplane.sinks.ownership import Claim
from windrow.dataplane.sinks.parquet import ParquetSink
from windrow.dataplane.sinks.places import refuse_state
from windrow.dataplane.sinks.registry import is_overwriting, open_sink


def check_sink(
    query: str, clause: SinkClause, claim: Claim, neighbours: Collection[str] = (), mode: SinkMode | None = None
) -> list[Path]:
    """Raise SinkError unless the query may write to the path of its sink, and return the files to delete first.

    `neighbours` are the names of files of other queries that write into the same directory; these are left alone.
    """
    sink = open_sink(query, clause, mode=mode)
    if not isinstance(sink, JsonLinesSink | ParquetSink):
        return []
    path, owner = sink.output.path, claim.owner
    with reporting(query, path, kept=False):
        refuse_state(query, path, Path(owner.directory), isinstance(sink, ParquetSink))
        sink.check()
        return check_output(sink.output, claim, neighbours, is_overwriting(clause))
