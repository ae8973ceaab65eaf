"""The command line with continuous queries: pictures of plans, `run`, `status`."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.console.plans import show_plans
from windrow.errors import SinkError, UnsupportedError
from windrow.explain.drawing import DrawnPlan
from windrow.explain.tree import ExplainedPlan, PlanBox
from windrow.result import Plan

JOIN = "SELECT o.customer, o.amount, c.page FROM orders [RANGE 1 MINUTE] o JOIN clicks [RANGE 30 SECONDS] c ON o.customer = c.customer"
MORE = """
CREATE TABLE names (customer STRING PRIMARY KEY, name STRING);
INSERT INTO names VALUES ('ann', 'Ann'), ('bob', 'Bob');
CREATE STREAM big AS SELECT ISTREAM(customer, amount) FROM orders [RANGE 1 MINUTE] WHERE amount > 6;
CREATE QUERY dear AS SELECT n.name, b.amount AS a FROM big [RANGE 1 MINUTE] b JOIN names n ON b.customer = n.customer;
"""


def cli(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def drawn() -> Plan:
    explained = ExplainedPlan("q", "Query q: periodic", PlanBox("Stream", "s by ts"))
    return Plan(explained.text(), DrawnPlan(explained))


# -- without Spark -----------------------------------------------------------------------------------


def test_one_time_queries_are_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="one-time"):
        show_plans([Plan("text only")], tmp_path / "plan.svg")
    assert not (tmp_path / "plan.svg").exists()


def test_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be written"):
        show_plans([drawn()], tmp_path / "absent" / "plan.svg")


def test_text_unless_a_picture_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_plans([drawn()])
    assert capsys.readouterr().out == "Query q: periodic\n└─ Stream s by ts\n"
    show_plans([drawn()], tmp_path / "plan.svg")
    assert capsys.readouterr().out == ""
    show_plans([drawn()], mermaid=True)
    assert capsys.readouterr().out.startswith("flowchart BT\n")


def test_plan_displays_as_a_picture_with_its_text() -> None:
    page = drawn()._repr_html_()
    assert page.index("<svg") < page.index("<details>") < page.index("└─ Stream s by ts")
    assert "<svg" not in Plan("text only")._repr_html_()


# -- with Spark --------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a script over two streams of files."""
    rows = {
        "orders": "2026-01-01T00:00:05Z,ann,10\n2026-01-01T00:00:20Z,bob,7\n2026-01-01T00:00:40Z,ann,5\n",
        "clicks": "2026-01-01T00:00:01Z,ann,home\n2026-01-01T00:00:15Z,bob,shop\n2026-01-01T00:00:39Z,ann,shop\n",
    }
    text = ""
    for name, lines in rows.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.csv").write_text(lines, encoding="utf-8")
        columns = "amount INT" if name == "orders" else "page STRING"
        text += (
            f"CREATE STREAM {name} (ts TIMESTAMP, customer STRING, {columns}) FROM files"
            f" OPTIONS (path '{tmp_path / name}', format 'csv') TIMESTAMP BY ts PUNCTUATE WITH SLACK 2 SECONDS;\n"
        )

    def write(queries: str) -> Path:
        path = tmp_path / "app.cql"
        path.write_text(text + queries, encoding="utf-8")
        return path

    return write


@pytest.mark.slow
def test_explain_draws_all_queries_of_a_script(script: Callable[[str], Path], tmp_path: Path, spark: Any) -> None:
    path = script(
        f"CREATE QUERY bought AS {JOIN};\n"
        "CREATE QUERY per_minute AS SELECT COUNT(*) AS n FROM orders [RANGE 1 MINUTE SLIDE 1 MINUTE];"
    )
    done = cli("explain", path, "--svg", tmp_path / "plan.svg", "--mermaid")
    assert done.exit_code == 0, done.stderr
    texts = [
        text.text
        for text in ElementTree.parse(tmp_path / "plan.svg").getroot().iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"Query bought", "Query per_minute", "Join", "WindowAggregate"} <= set(texts)
    assert "on orders.customer = clicks.customer" in texts
    assert done.stdout.startswith("flowchart BT\n") and done.stdout.count("subgraph") == 2


@pytest.mark.slow
def test_run_prints_the_view(script: Callable[[str], Path], tmp_path: Path, spark: Any) -> None:
    """Twice, on one state: the script has everything that a script may create."""
    path, state = script(f"CREATE QUERY bought AS {JOIN};" + MORE), tmp_path / "state"
    done = cli("run", path, "--until-available", "--state", state)
    assert done.exit_code == 0, done.stderr
    assert "bought: 4 changes; the view at 2026-01-01 00:00:41 has 3 rows" in done.stdout
    assert "| ann      |      5 | shop |" in done.stdout
    assert "| query  | ticks | rows | state  |" in done.stdout and "windows answered" not in done.stdout
    assert "| Ann  |  10 |" in done.stdout and "| Bob  |   7 |" in done.stdout
    assert "2 rows inserted into names\n" in done.stderr
    found = json.loads(cli("status", "--state", state, "--json").stdout)
    wanted = {"name": "bought", "streams": ["orders", "clicks"], "changes": 4, "ticked": "2026-01-01 00:00:41"}
    assert found["continuous_queries"][0] == {**wanted, "error": None, "is_paused": False}
    assert found["tables"] == [{"name": "names", "is_retroactive": True, "stream": None, "changes": 1}]
    again = cli("run", path, "--until-available", "--state", state)
    assert again.exit_code == 0, again.stderr
    for kept in ("query bought", "query dear", "stream big", "table names"):
        assert f"{kept}: kept, it exists with the same text" in again.stderr
    assert "0 rows inserted into names; 2 rows kept, there already with the same values" in again.stderr
    assert again.stdout.partition("In this run")[0] == done.stdout.partition("In this run")[0]
    status = cli("status", "--state", state).stdout
    assert "| bought           | orders, clicks |       4 |" in status
    assert "| names | retroactive | statements |       1 |" in status
    assert re.search(r"^\| orders +\|.* ago +\|", status, re.M), "a run without input keeps the time of the last commit"
    for old, new, says in (
        ("'Bob'", "'Rob'", "the key customer = bob of table 'names' exists already"),
        ("name STRING)", "name STRING, n INT)", "table 'names' exists with another text"),
        ("amount > 6", "amount > 8", "stream 'big' exists with another text"),
    ):
        other = script(f"CREATE QUERY bought AS {JOIN};" + MORE.replace(old, new))
        refused = cli("run", other, "--until-available", "--state", state)
        assert (refused.exit_code, says in refused.stderr) == (1, True), refused.stderr


@pytest.mark.slow
def test_run_all_prints_the_changes(script: Callable[[str], Path], tmp_path: Path, spark: Any) -> None:
    path = script(f"CREATE QUERY bought AS {JOIN};")
    done = cli("run", path, "--until-available", "--all")
    assert done.exit_code == 0, done.stderr
    assert "bought: 4 changes" in done.stdout
    assert "| +   | 2026-01-01 00:00:05 | 2026-01-01 00:00:31 | ann      |     10 | home |" in done.stdout
    lines = cli("run", path, "--until-available", "--format", "jsonl").stdout.splitlines()
    assert len(lines) == 4 and {json.loads(line)["op"] for line in lines} == {"+"}


@pytest.mark.slow
def test_ctrl_c_with_several_streams(script: Callable[[str], Path], tmp_path: Path, spark: Any) -> None:
    """`windrow run` goes on with what comes until Ctrl-C; then all streams stop in order, and a later run continues."""
    shown = tmp_path / "shown.jsonl"
    path = script(f"CREATE QUERY bought AS {JOIN};\nCREATE QUERY kept AS {JOIN} INTO jsonl OPTIONS (path '{shown}');")

    def wait_for(lines: int) -> None:
        until_s = time.monotonic() + 60
        while not shown.exists() or len(shown.read_text().splitlines()) < lines:
            assert time.monotonic() < until_s, "nothing more is shown"
            time.sleep(0.05)

    def use() -> None:
        wait_for(2)
        for name, row in (("orders", "ann,1"), ("clicks", "ann,end")):
            (tmp_path / f"{name}.csv").write_text(f"2026-01-01T00:00:50Z,{row}\n", encoding="utf-8")
            os.rename(tmp_path / f"{name}.csv", tmp_path / name / "2.csv")
        wait_for(4)
        os.kill(os.getpid(), signal.SIGINT)

    user = threading.Thread(target=use, daemon=True)
    user.start()
    done = cli("run", path, "--state", tmp_path / "state")
    user.join(60)
    assert done.exit_code == 0, done.stderr
    assert "running; Ctrl-C stops" in done.stderr
    assert "bought: 2 changes" in done.stdout and "the view at 2026-01-01 00:00:48 has" in done.stdout
    ended = cli("run", path, "--until-available", "--state", tmp_path / "state")
    assert ended.exit_code == 0, ended.stderr
    assert {json.loads(line)["page"] for line in shown.read_text().splitlines()} == {"home", "shop", "end"}
