"""Options for a JVM that lives for seconds, as those of children that are killed.

Such a JVM spends most of its life loading Spark's classes. The first call writes them to an archive (class data
sharing), from which later JVMs map them. A JVM ignores an archive of other jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROUGH = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Quick, rough compilation costs a short life least."""

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / ".pytest_cache" / "spark-classes.jsa"
TIMEOUT_S = 300

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


@cache
def short_lived_jvm() -> str:
    """The value of JDK_JAVA_OPTIONS; without an archive if none can be made."""
    if not ARCHIVE.exists():
        _write_archive()
    return f"{ROUGH} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else ROUGH


def _write_archive() -> None:
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as directory:
        made = Path(directory) / ARCHIVE.name
        options = f"{ROUGH} -XX:ArchiveClassesAtExit={made}"
        environment = {**os.environ, "JDK_JAVA_OPTIONS": options, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run(
            [sys.executable, "-c", SCRIPT, directory],
            env=environment,
            cwd=directory,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if made.exists():
            made.rename(ARCHIVE)
