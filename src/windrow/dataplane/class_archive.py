"""An archive of Spark's classes (class data sharing): a JVM maps them from it instead of loading each from its jar.

`windrow warm-up` writes it once for an environment; from then on Spark starts in less time. A JVM ignores an archive
that other jars or another Java wrote.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from windrow.errors import SessionError

ARCHIVE = Path(sys.prefix) / "share" / "windrow" / "spark-classes.jsa"
TIMEOUT_S = 300

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Otherwise a JVM prints a warning when it ignores an archive."""

SCRIPT = """
import sys
import windrow

with windrow.open(sys.argv[1] + "/state") as wr:
    wr.sql("CREATE STREAM s (t BIGINT, k STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.sql("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM s [RANGE 5 SLIDE 5] GROUP BY k"
           f" INTO parquet OPTIONS (path '{sys.argv[1]}/out')")
    wr.feed("s", [(1, "a"), (7, "b")])
    wr.run_available(close=True)
"""
"""What most programs do first, so that its classes are in the archive."""


def archive_options(options: str, archive: Path = ARCHIVE) -> str:
    """The options with which a JVM uses the archive; empty if there is none, or if its other options name one."""
    if "SharedArchiveFile" in options or "ArchiveClassesAtExit" in options or " " in str(archive):
        return ""
    return f"-XX:SharedArchiveFile={archive} {SILENT}" if archive.exists() else ""


def write_archive(archive: Path = ARCHIVE) -> None:
    """Write the archive, in place of an earlier one. Raises SessionError if it cannot be written."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
            made = Path(directory) / archive.name
            given = os.environ.get("JDK_JAVA_OPTIONS", "")
            environment = {**os.environ, "JDK_JAVA_OPTIONS": f"{given} -XX:ArchiveClassesAtExit={made}"}
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT, directory],
                env=environment,
                cwd=directory,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
            if done.returncode or not made.exists():
                lines = done.stderr.strip().splitlines()
                raise SessionError(
                    f"the archive of Spark's classes was not written: {lines[-1] if lines else 'Java wrote none'}",
                    remedy="Windrow works without it. Check for Java 17 or newer (java -version).",
                )
            made.replace(archive)
    except OSError as error:
        raise SessionError(
            f"the archive of Spark's classes cannot be written to {archive}: {error.strerror}",
            remedy="Windrow works without it. Use an environment (python -m venv) that you may write to.",
        ) from None
