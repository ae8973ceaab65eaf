"""The options of Windrow's JVM keep a collector that the user has chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.dataplane.session import COLLECTOR, java_options


def test_default_collector(tmp_path: Path) -> None:
    assert COLLECTOR in java_options({"SPARK_CONF_DIR": str(tmp_path)})
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -XX:+UseZGC -Xss2m\n")
    assert "GC" not in java_options({"SPARK_CONF_DIR": str(tmp_path)})


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"])
def test_collector_of_the_environment(name: str) -> None:
    assert "GC" not in java_options({name: "-Dx=1 -XX:+UseSerialGC"})
    assert COLLECTOR in java_options({name: "-XX:+UseStringDeduplication -XX:MaxGCPauseMillis=50"})
