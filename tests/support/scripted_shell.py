"""`python -m tests.support.scripted_shell`: the shell over a state without Spark, for tests of its keys in a terminal.

A SELECT runs until it is cancelled, a SET for a second and a half. FOLDER (the argument) gets a file for each thing that happens.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark import SparkContext

from windrow.console.interrupts import Cancels, Interrupts
from windrow.console.shell.session import Shell
from windrow.console.shell.terminal import prompt
from windrow.cql.statements import Select, SetSetting, Show
from windrow.errors import CatalogError
from windrow.result import Result


class ScriptedState:
    """Answers as `Windrow` does, as far as the shell asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cancelled = threading.Event()
        SparkContext._active_spark_context = self  # type: ignore[assignment]
        column = SimpleNamespace
        definition = SimpleNamespace(columns=(("ts", "TIMESTAMP"), ("temperature", "INT")))
        streams = {"readings": column(name="readings", definition=definition)}
        manager = SimpleNamespace(streams=streams, queries=dict)
        self._engine = SimpleNamespace(manager=manager, tables=SimpleNamespace(all=list))

    def setJobGroup(self, group: str, description: str) -> None:
        self._cancelled.clear()

    def cancelJobGroup(self, group: str) -> None:
        (self._folder / "cancelled").touch()
        self._cancelled.set()

    def cancel_of(self, thread: int) -> int:
        return 0

    def execute(self, statement: Any, text: str) -> Result:
        if isinstance(statement, Select):
            print("selecting", flush=True)
            self._cancelled.wait(60)
            raise CatalogError("it was cancelled")
        if isinstance(statement, SetSetting):
            print("setting", flush=True)
            time.sleep(1.5)
            return Result.message(f"{statement.name} = {statement.value}")
        assert isinstance(statement, Show)
        rows = 500 if statement.what == "settings" else 2
        return Result(pa.table({"what": [f"{statement.what} {n}" for n in range(rows)], "n": range(rows)}))


def main() -> None:
    with Interrupts() as interrupts:
        cancels = Cancels(interrupts)
        with cancels:
            prompt(Shell(ScriptedState(Path(sys.argv[1])), cancels), interrupts, cancels)  # type: ignore[arg-type]
    print("left in order", flush=True)


if __name__ == "__main__":
    main()
