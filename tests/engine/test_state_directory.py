"""A state directory has one user at a time, and holds everything that a restart needs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import windrow
from engine.helpers import answers, put
from windrow.errors import SessionError, StateError

pytestmark = pytest.mark.slow

QUERY = "CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 20 SLIDE 10] GROUP BY k"


def test_second_open_in_one_process(wr: Any, spark: Any) -> None:
    with pytest.raises(StateError, match="open in this process already"):
        windrow.open(wr.state_dir, spark=spark)
    wr.sql(QUERY)
    put(wr, (1, "a", 1), (11, "a", 2))
    assert answers(wr, "q") == [(-10, 10, "a", 1)]


def test_second_process_is_refused(wr: Any) -> None:
    code = f"import windrow; windrow.open({str(wr.state_dir)!r})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.returncode != 0
    assert "is held by process" in run.stderr


def test_failed_open_releases_the_lock(open_state: Any, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(windrow.WindrowError):
        windrow.open(tmp_path / "state", spark=spark, settings={"no_such_setting": 1})
    open_state("state").close()
    open_state("state")


def test_reopen(open_state: Any, wr: Any) -> None:
    wr.sql(QUERY)
    put(wr, (1, "a", 1), (11, None, 2))
    wr.sql("SET retained_answers = 7")
    wr.close()
    again = open_state()
    put(again, (21, "a", 4))
    again.end_input("s")
    assert answers(again, "q") == [
        (-10, 10, "a", 1),
        (0, 20, "a", 1),
        (0, 20, None, 2),
        (10, 30, "a", 4),
        (10, 30, None, 2),
        (20, 40, "a", 4),
    ]
    settings = {row["name"]: row["value"] for row in again.sql("SHOW SETTINGS").rows()}
    assert settings["retained_answers"] == "7"


def test_setting_that_cannot_be_saved(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise StateError("full", remedy="-")

    before = wr._engine.settings
    with monkeypatch.context() as broken:
        broken.setattr(wr._engine.catalog, "transaction", full)
        with pytest.raises(StateError, match="full"):
            wr.sql("SET retained_answers = 7")
    assert wr._engine.settings is before
    wr.sql("SET retained_answers = 7")
    assert wr._engine.settings.integer("retained_answers") == 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.session.timeZone", "Europe/Paris"),
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false"),
        ("spark.sql.legacy.literal.pickMinimumPrecision", "false"),
    ],
)
def test_unsuitable_spark_session_is_refused(spark: Any, tmp_path: Path, name: str, value: str) -> None:
    own = spark.newSession()
    windrow.open(tmp_path / "state", spark=own).close()
    own.conf.set(name, value)
    with pytest.raises(SessionError, match=name) as raised:
        windrow.open(tmp_path / "state", spark=own)
    assert raised.value.remedy is not None and name in raised.value.remedy


@pytest.mark.parametrize(
    "zone",
    "Etc/UTC UCT Etc/UCT Zulu Universal Greenwich GMT Etc/GMT GMT0 Etc/GMT-0 GMT+0 UTC+00:00 +00:00 +0:00 Z".split(),
)
def test_session_in_utc_by_another_name(spark: Any, tmp_path: Path, zone: str) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", zone)
    windrow.open(tmp_path / "state", spark=own).close()


@pytest.mark.parametrize("zone", ["Etc/GMT+1", "Europe/London", "Africa/Abidjan", "+00:30", "UTC-1"])
def test_session_in_another_zone_is_refused(spark: Any, tmp_path: Path, zone: str) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", zone)
    with pytest.raises(SessionError, match=re.escape(f"timeZone = {zone}, and Windrow needs UTC")):
        windrow.open(tmp_path / "state", spark=own)


@pytest.mark.parametrize("home", ["driver", "spark"])
def test_answers_in_utc_by_another_name(spark: Any, tmp_path: Path, home: str) -> None:
    """Times are the same as keys, values and answers, also in a state that was begun under the name UTC."""
    opened = [spark.newSession(), spark.newSession()]
    opened[1].conf.set("spark.sql.session.timeZone", "Z")
    for number, own in enumerate(opened):
        with windrow.open(
            tmp_path / "state", spark=own, settings={"synopsis_home": home, "preaggregate": "spark"}
        ) as wr:
            if number == 0:
                wr.sql("CREATE STREAM s (ts TIMESTAMP, day TIMESTAMP) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
                wr.query(
                    "q",
                    "SELECT day, MAX(ts) AS last, COUNT(*) AS n, DATE_FORMAT(day, 'HH:mm') AS at"
                    " FROM s [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY day",
                )
            wr.deposit("s", [(f"2026-03-01 12:{number}5:00", "2026-03-01 00:00:00")])
            wr.punctuate("s", f"2026-03-01 1{2 + number}:00:00" if number else "2026-03-01 12:10:00")
            found = wr.queries["q"].answers().rows()
    assert [(str(row["day"]), str(row["last"]), row["n"], row["at"]) for row in found] == [
        ("2026-03-01 00:00:00+00:00", "2026-03-01 12:15:00+00:00", 2, "00:00")
    ]


def test_script_that_ends_with_an_exception() -> None:
    code = (
        "import windrow\n"
        "wr = windrow.open(master='local[1]')\n"
        "wr.sql('CREATE STREAM s (t BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED')\n"
        "wr.query('q', 'SELECT COUNT(*) + 1 AS n FROM s [RANGE 10 SLIDE 10]')\n"
        "wr.deposit('s', [(1,), (20,)])\n"
        "raise RuntimeError('the end')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stderr.rstrip().endswith("RuntimeError: the end")
    assert "leaked" not in run.stderr
