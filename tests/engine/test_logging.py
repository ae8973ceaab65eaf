"""What Windrow logs: events with fields, as text and as JSON lines; Py4J stays quiet."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import windrow
from windrow.logs import JsonLines, quieten_py4j

STREAM = "CREATE STREAM s (t BIGINT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
QUERY = "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 5]"


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    return [record.fields for record in caplog.records if getattr(record, "event", None) == name]  # type: ignore[attr-defined]


def test_events_of_a_run(tmp_path: Path, spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql(STREAM)
        wr.query("q", QUERY)
        wr.feed("s", [(1, 1), (7, 1), (12, 1)])
        wr.run_available()
        wr.feed("s", [(3, 1), (20, 1)])
        wr.run_available()
        wr.sql("DROP QUERY q")
    assert [e["streams"] for e in events(caplog, "state_opened")] == [0]
    assert [e["stream"] for e in events(caplog, "stream_opened")] == ["s"]
    assert [e["query"] for e in events(caplog, "query_created")] == ["q"]
    assert [(e["batch"], e["rows"]) for e in events(caplog, "micro_batch")] == [(0, 3), (1, 1)]
    assert [(e["rows"], e["reason"]) for e in events(caplog, "dead_letters")] == [(1, "late")]
    assert [e["batch"] for e in events(caplog, "deposit_commit")] == [0, 1]
    assert sum(e["windows"] for e in events(caplog, "tick")) == 4
    assert sum(e["rows"] for e in events(caplog, "tick_commit")) == 4
    assert [len(events(caplog, name)) for name in ("stream_started", "query_dropped", "state_closed")] == [2, 1, 1]
    assert not [record for record in caplog.records if record.name.startswith("py4j")]


def test_moves_are_logged(tmp_path: Path, spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with windrow.open(tmp_path / "state", spark=spark, settings={"synopsis_home": "spark"}) as wr:
        wr.sql(STREAM)
        wr.query("q", QUERY)
        wr.feed("s", [(1, 1), (7, 1), (12, 1)])
        wr.run_available()
    assert [e["home"] for e in events(caplog, "synopsis_moved")] == ["Spark"]


def test_json_lines() -> None:
    record = logging.LogRecord("windrow", logging.INFO, __file__, 1, "%s", ("three rows",), None)
    record.event, record.fields = "micro_batch", {"rows": 3, "stream": "s"}
    line = json.loads(JsonLines().format(record))
    assert (line["event"], line["message"], line["rows"], line["level"]) == ("micro_batch", "three rows", 3, "info")


def test_level_of_py4j_that_the_user_set_stays() -> None:
    logger = logging.getLogger("py4j")
    before = logger.level
    try:
        for mine, then in ((logging.DEBUG, logging.DEBUG), (logging.NOTSET, logging.WARNING)):
            logger.setLevel(mine)
            quieten_py4j()
            assert logger.level == then
    finally:
        logger.setLevel(before)


@pytest.mark.slow
def test_command_line_logs_json(tmp_path: Path) -> None:
    script = tmp_path / "app.cql"
    script.write_text(f"{STREAM};\nCREATE QUERY q AS {QUERY};\n", encoding="utf-8")
    command = [sys.executable, "-m", "windrow", "--log", "info", "--log-json", "run", script, "--until-available"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=120)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr
    assert {"state_opened", "stream_opened", "query_created", "state_closed"} <= {line["event"] for line in lines}
