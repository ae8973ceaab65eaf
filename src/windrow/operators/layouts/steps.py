"""What an operator is given and gives in one batch of ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.queue import RowQueue
from windrow.operators.layouts.row_list import RowList
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks

StateTable = Calendar | Keyed | RowQueue | RowList
"""One table of an operator's state."""


@dataclass(frozen=True)
class TickBatch:
    """The due ticks, and what evaluates expressions. `has_until`: the plan has INTERNAL windows."""

    due: DueTicks
    kernel: Kernel
    has_until: bool


@dataclass(frozen=True)
class Outcome:
    """The output of an operator for all due ticks, the tables of its state that changed, and what must be durable."""

    edge: Edge
    tables: Mapping[str, StateTable] = field(default_factory=dict)
    parts: tuple[StatePart, ...] = ()
