"""Shared by all tests: options, the Spark session, and the Java that `make setup` found."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support.matrix import SIZES, matrix_size
from support.short_lived_jvm import ROUGH

# Properties draw the same examples each time, so one commit has one result. `make test-matrix` draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)  # a busy machine is no failure
settings.register_profile("random", print_blob=True, deadline=None)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a misspelt WINDROW_MATRIX, and let a bare `pytest` find the Java of `make setup`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts jobs in the background so; tests send Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if matrix_size() not in SIZES:
        raise pytest.UsageError(f"WINDROW_MATRIX is one of {', '.join(SIZES)}, not {matrix_size()!r}")
    recorded = ROOT / ".venv" / "java_home"
    if "JAVA_HOME" not in os.environ and not shutil.which("java") and recorded.exists():
        os.environ["JAVA_HOME"] = recorded.read_text(encoding="utf-8").strip()


INDEPENDENT = ("tests/unit/", "tests/test_cql_files.py")
"""Where the tests of one file may run in different processes. Those of other files share fixtures that take seconds."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several processes (`pytest -n`), the tests of a file run in one of them."""
    for item in items:
        file = item.path.relative_to(ROOT).as_posix()
        if not file.startswith(INDEPENDENT):
            item.add_marker(pytest.mark.xdist_group(file))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The Spark session of the whole run, configured as Windrow's own; its JVM compiles roughly, since tests are short."""
    from windrow.dataplane.session import close_session, open_session
    from windrow.settings import Settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", ROUGH)
        session = open_session(None, "local[2]", Settings())
    session.conf.set("spark.sql.shuffle.partitions", 2)
    # Spark would compile most expressions for a few rows. Programs that tests start have sessions that do.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    close_session(session)
