"""Files that cannot be read: which file a failed job names, which files Spark left out, and a micro-batch without them.

Spark leaves out a file that vanishes before it lists those of a micro-batch, with no more than a warning. So the files
that a micro-batch reads are compared with Spark's log of the source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.lines import shown_path
from windrow.dataplane.sources.files import read_again
from windrow.dataplane.sources.paths import is_pattern

_FAILED, _OTHER_TYPE = "FAILED_READ_FILE", "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH"
_FILES = "FileScanRDD"
_RDD = re.compile(r"(\w+)\[\d+\] at ")
_SCANNED = re.compile(r"path: (.*?), range: \d+-\d+, partition values: ")


@dataclass(frozen=True)
class BadFile:
    """A file that cannot be read, and why."""

    uri: str
    cause: str

    @property
    def path(self) -> str:
        return shown_path(self.uri)


def bad_file(error: BaseException) -> BadFile | None:
    """The file that made a Spark job fail; None if the job failed for another reason, or since a column of the file has
    another type than declared."""
    chain = list(_chain(error))
    for java in chain:
        condition, path = _condition(java)
        if condition.startswith(_FAILED) and condition != _OTHER_TYPE and path is not None:
            return BadFile(path, _said(chain[-1], path))
    return None


def _chain(error: BaseException) -> Iterator[Any]:
    """The exceptions of the JVM behind an error, the cause last."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        yield java
        java = java.getCause()


def _condition(java: Any) -> tuple[str, str | None]:
    """The condition of an exception of Spark, and the path it names."""
    try:
        return str(java.getCondition() or ""), java.getMessageParameters().get("path")
    except Py4JError:  # not an exception of Spark's
        return "", None


def _said(java: Any, uri: str) -> str:
    """What an exception says, without the name of the file, which stands before it."""
    name = str(java.getClass().getSimpleName())
    lines = str(java.getMessage() or "").strip().splitlines() or [""]
    path = re.escape(shown_path(uri))
    text = re.sub(rf"^(File )?(file:/*)?{path}:? *", "", lines[0]).strip()
    return f"{text} ({name})" if text else name


def is_misread(uris: Sequence[str]) -> bool:
    """Whether Spark reads files of a micro-batch twice: one among them has a name like a pattern (SPARK-58518)."""
    return len(uris) > 1 and any(is_pattern(shown_path(uri)) for uri in uris)


def left_out(rows: DataFrame, uris: Sequence[str]) -> dict[str, bool]:
    """The files among `uris` that a micro-batch does not read, and whether each is there by now. Empty files have
    nothing to read."""
    scanned = {shown_path(uri) for uri in _scanned(rows)}
    missing = [uri for uri in uris if shown_path(uri) not in scanned]
    sizes = {uri: _size(rows, uri) for uri in missing}
    return {uri: size is not None for uri, size in sizes.items() if size != 0}


def without_files(rows: DataFrame, stream: StreamDef, uris: Sequence[str], bad: Collection[str]) -> DataFrame:
    """The rows of the micro-batch that consists of the files `uris`, without those of the bad ones."""
    good = [uri for uri in uris if uri not in bad]
    return read_again(rows.sparkSession, stream, good) if good else rows.where("false")


def _scanned(rows: DataFrame) -> list[str]:
    """The files that a micro-batch reads, as Spark has planned it."""
    rdd = rows._jdf.queryExecution().analyzed().collectLeaves().head().rdd()
    above = rdd.getNarrowAncestors()
    names = _RDD.findall(str(above))  # one by one they would take a dozen calls of the JVM, each half a millisecond
    if _FILES in names:
        rdd = above.apply(names.index(_FILES))
    elif rdd.getClass().getSimpleName() != _FILES:
        return []  # there is no file to read
    partitions, java = rdd.filePartitions(), rows.sparkSession._jvm
    as_text = java.scala.runtime.ScalaRunTime.stringOf  # type: ignore[union-attr]
    return [uri for i in range(partitions.size()) for uri in _SCANNED.findall(as_text(partitions.apply(i).files()))]


def _size(rows: DataFrame, uri: str) -> int | None:
    """The size of a file; None if it does not exist."""
    path = shown_path(uri)
    if path.startswith("/"):
        return os.stat(path).st_size if os.path.exists(path) else None
    jvm: Any = rows.sparkSession._jvm
    place = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri))
    system = place.getFileSystem(rows.sparkSession._jsparkSession.sessionState().newHadoopConf())
    return int(system.getFileStatus(place).getLen()) if system.exists(place) else None
