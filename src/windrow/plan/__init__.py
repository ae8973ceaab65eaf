"""Logical plans: nodes, the binder, accumulators."""

from windrow.plan.accumulators import Accumulator, AggregateCall, Kind
from windrow.plan.nodes import Attribute, Finalise, Key, Order, Output, Scan, Selection, WindowAggregate

__all__ = [
    "Accumulator",
    "AggregateCall",
    "Attribute",
    "Finalise",
    "Key",
    "Kind",
    "Order",
    "Output",
    "Scan",
    "Selection",
    "WindowAggregate",
]
