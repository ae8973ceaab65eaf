"""The matrix of configurations under which each `.test` file runs, and its pairwise sample."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.test_file import Statement, TestFile


@dataclass(frozen=True)
class Variation:
    """One way to run a file; the answers must not depend on it.

    `batch_rows`: None keeps the file's micro-batches, 0 merges adjacent feeds into one, n cuts them into micro-batches
    of n rows (only for files that say `recut ok`). `evaluation` is a value of the setting `window_evaluation`; or
    `spark_home`: panes, in the Spark home if possible; or a kind of synopsis; or `selection`: holistic aggregates from
    sorted base intervals if possible. `rules_off`: all optimizer rules are off, or the one of that name. `plan_home` is
    where continuous plans run, `execution` their strategy, except for queries that it refuses. `tables`: `bucketed`
    keeps even small ones in bucketed blocks. `asked`: where one-time queries over windows are evaluated. `ranges`: into
    how many ranges of buckets Spark cuts a continuous plan, each of which is a task; 0: one per core.
    """

    batch_rows: int | None = None
    partitions: int = 1
    preaggregate: str = "auto"
    restart: bool = False
    rules_off: bool | str = False
    evaluation: str = "window_ids"
    filters: str = "auto"
    plan_home: str = "auto"
    execution: str = "upa"
    tables: str = "broadcast"
    asked: str = "auto"
    ranges: int = 0

    def __str__(self) -> str:
        batches = {None: "own", 0: "all"}.get(self.batch_rows, str(self.batch_rows))
        rules = f"-no_{self.rules_off}" if isinstance(self.rules_off, str) else "-norules" if self.rules_off else ""
        marks = ("-restart" if self.restart else "") + rules
        marks += "" if self.evaluation == "window_ids" else f"-{self.evaluation}"
        marks += "-filters" if self.filters == "on" else ""
        marks += "" if self.plan_home == "auto" else f"-{self.plan_home}_plans"
        marks += "" if self.execution == "upa" else f"-{self.execution}"
        marks += "" if self.tables == "broadcast" else f"-{self.tables}_tables"
        marks += "" if self.asked == "auto" else f"-asked_{self.asked}"
        marks += "" if not self.ranges else f"-{self.ranges}_ranges"
        return f"b_{batches}-p{self.partitions}-{self.preaggregate}{marks}"


Axes = tuple[tuple[str, tuple[Any, ...]], ...]
"""Settings by name, each with the values that are tried."""

AXES: dict[str, tuple[Any, ...]] = {
    "batch_rows": (None, 1, 3, 0),
    "partitions": (1, 2, 7),
    "preaggregate": ("spark", "driver"),
    "restart": (False, True),
    "rules_off": (False, True),
    "evaluation": ("window_ids", "buffer", "spark_home", "interval", "running", "landmark", "selection"),
    "filters": ("auto", "on"),
    "plans": (("driver", 0), ("spark", 0), ("spark", 1), ("spark", 3)),
    "execution": ("upa", "negative", "direct"),
    "asked": ("driver", "spark"),
}
"""`plans` has the values of `plan_home` with those of `ranges`."""

_PERIODIC = ("preaggregate", "evaluation", "filters")
_CONTINUOUS = ("plans", "execution")
_HOLISTIC = re.compile(r"\b(MEDIAN|QUANTILE|PERCENTILE|TOP_K|DISTINCT)\b", re.IGNORECASE)


def axes_of(test: TestFile) -> Axes:
    """The axes without the settings and values that cannot matter to the file."""
    text = "\n".join(one.text for one in test.commands if isinstance(one, Statement))
    unused = {*(_PERIODIC if test.is_continuous else _CONTINUOUS)}
    unused |= set() if test.recut_ok else {"batch_rows"}
    unused |= {"rules_off"} if test.needs_rules else set()
    unused |= set() if test.asks else {"asked"}
    unused |= set() if "HAVING" in text.upper() else {"filters"}
    unused |= {"execution"} if "OR REPLACE" in text.upper() else set()  # queries of other strategies are not replaced
    without = {"buffer"} if test.needs_rules else set()
    without |= set() if _HOLISTIC.search(text) else {"selection"}
    kept = {name: values for name, values in AXES.items() if name not in unused}
    return tuple((name, tuple(v for v in values if v not in without)) for name, values in kept.items())


def every_combination(axes: Axes) -> tuple[Variation, ...]:
    names = [name for name, _ in axes]
    combinations = itertools.product(*(values for _, values in axes))
    return tuple(_variation(dict(zip(names, chosen, strict=True))) for chosen in combinations)


@functools.cache
def pairwise(axes: Axes) -> tuple[Variation, ...]:
    """A sample with every pair of values of two axes, chosen greedily. Each variation begins with a missing pair, of the
    longest axes first; every further axis gets the value with the most missing pairs."""
    choices = {name: [(name, value) for value in values] for name, values in sorted(axes, key=lambda one: -len(one[1]))}
    several = (itertools.product(choices[one], choices[other]) for one, other in itertools.combinations(choices, 2))
    missing = dict.fromkeys(frozenset(pair) for pairs in several for pair in pairs)
    sample: list[Variation] = []
    while missing:
        chosen = set(next(iter(missing)))
        for axis in (name for name in choices if name not in dict(chosen)):
            gains = [sum(frozenset((one, other)) in missing for other in chosen) for one in choices[axis]]
            chosen.add(choices[axis][gains.index(max(gains))])
        for pair in itertools.combinations(chosen, 2):
            missing.pop(frozenset(pair), None)
        sample.append(_variation(dict(chosen)))
    return tuple(sample)


def _variation(chosen: dict[str, Any]) -> Variation:
    plan_home, ranges = chosen.get("plans", ("auto", 0))
    fields = {name: value for name, value in chosen.items() if name != "plans"}
    return Variation(plan_home=plan_home, ranges=ranges, **fields)


SIZES = ("sample", "full", "product")


def matrix_size() -> str:
    """How much of the matrix to run: the value of WINDROW_MATRIX."""
    return os.environ.get("WINDROW_MATRIX") or "sample"


def is_full() -> bool:
    return matrix_size() != "sample"


def sized(sample: int, full: int, product: int) -> int:
    """How many examples of a property, or how large its input is. `full` is for a whole run in an hour or two."""
    return {"sample": sample, "full": full, "product": product}[matrix_size()]


def variations_of(tests: Sequence[TestFile]) -> list[tuple[TestFile, Variation]]:
    """The files with their variations. `sample`: one of the pairwise sample, in turn among files of the same axes;
    `full`: the whole pairwise sample; `product`: every combination."""
    pairs: list[tuple[TestFile, Variation]] = []
    turns: Counter[Axes] = Counter()
    for test in tests:
        axes = axes_of(test)
        chosen = every_combination(axes) if matrix_size() == "product" else pairwise(axes)
        if not is_full():
            chosen = (chosen[turns[axes] % len(chosen)],)
            turns[axes] += 1
        pairs += [(test, variation) for variation in chosen]
    return pairs
