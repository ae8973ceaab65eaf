"""Partial results of a window in Spark tasks: each task reduces its share of the files to one small table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from windrow.dataplane.kernels.window_rows import WindowRows
from windrow.dataplane.stores import WindowSource
from windrow.operators.scan import stored_schema
from windrow.operators.stages.partials import PartialPlan
from windrow.operators.tables.kernel import Kernel


@dataclass(frozen=True)
class PartialWork:
    """What tasks do: each reads rows of a window, computes what is not kept, and reduces them by a part of a plan."""

    rows: tuple[WindowRows, ...]
    source: WindowSource
    plan: PartialPlan
    max_value_bytes: int

    def reduced(self, task: int) -> pa.Table:
        """The merged partial result of the rows of a task."""
        kernel, names = _kernel(self.max_value_bytes), stored_schema(self.plan.window).names
        found = [
            self.plan.partial(self.source.computed(table, kernel).rename_columns(names), kernel)
            for table in self.rows[task].tables(0)
        ]
        if not found:
            empty = stored_schema(self.plan.window).empty_table()
            found = [self.plan.partial(empty, kernel)]
        return self.plan.merged(found, kernel)


_KERNELS: dict[int, Kernel] = {}


def _kernel(max_value_bytes: int) -> Kernel:
    """The kernel of this process, which keeps its DuckDB connection."""
    return _KERNELS.setdefault(max_value_bytes, Kernel(max_value_bytes))
