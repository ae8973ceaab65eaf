"""The matrix of configurations under which each `.test` file runs, and its pairwise sample."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from windrow.settings import SPECS


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


AXES: dict[str, tuple[Any, ...]] = {
    "batch_rows": (None, 1, 3, 0),
    "partitions": (1, 2, 7),
    "preaggregate": ("spark", "driver"),
    "restart": (False, True),
    "rules_off": (False, True),
    "evaluation": ("window_ids", "buffer", "spark_home", "interval", "running", "landmark", "selection"),
    "filters": ("auto", "on"),
    "plan_home": ("driver", "spark") if "plan_home" in SPECS else ("auto",),
    "execution": ("upa", "negative", "direct") if "execution" in SPECS else ("upa",),
    "tables": ("broadcast",),
    "asked": ("driver", "spark"),
    "ranges": (0, 1, 3),
}


def whole_matrix() -> list[Variation]:
    return [Variation(*values) for values in itertools.product(*(AXES[f.name] for f in fields(Variation)))]


@functools.cache
def pairwise() -> tuple[Variation, ...]:
    """A sample with every pair of values of two axes, chosen greedily. Each variation begins with a missing pair, of the
    longest axes first; every further axis gets the value with the most missing pairs."""
    axes = sorted(AXES, key=lambda name: -len(AXES[name]))
    choices = {axis: [(axis, value) for value in AXES[axis]] for axis in axes}
    several = (itertools.product(choices[one], choices[other]) for one, other in itertools.combinations(axes, 2))
    missing = dict.fromkeys(frozenset(pair) for pairs in several for pair in pairs)
    sample: list[Variation] = []
    while missing:
        chosen = set(next(iter(missing)))
        for axis in (name for name in axes if name not in dict(chosen)):
            gains = [sum(frozenset((one, other)) in missing for other in chosen) for one in choices[axis]]
            chosen.add(choices[axis][gains.index(max(gains))])
        for pair in itertools.combinations(chosen, 2):
            missing.pop(frozenset(pair), None)
        sample.append(Variation(**dict(chosen)))
    return tuple(sample)


SIZES = ("sample", "full", "product")


def matrix_size() -> str:
    """How much of the matrix to run: the value of WINDROW_MATRIX."""
    return os.environ.get("WINDROW_MATRIX") or "sample"


def is_full() -> bool:
    return matrix_size() != "sample"


def variations_for(index: int) -> Sequence[Variation]:
    """The variations of the index-th file. `sample`: one of the pairwise sample, in turn; `full`: the whole pairwise
    sample; `product`: every combination."""
    if matrix_size() == "product":
        return whole_matrix()
    sample = pairwise()
    return sample if is_full() else [sample[index % len(sample)]]
