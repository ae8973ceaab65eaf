"""Query schedulers: which periodic queries run next, and which of them together."""

from windrow.schedulers.queries.aggressive import AggressiveScheduler
from windrow.schedulers.queries.by_name import SCHEDULER_NAMES, query_scheduler
from windrow.schedulers.queries.conservative import ConservativeScheduler
from windrow.schedulers.queries.edf import EdfScheduler
from windrow.schedulers.queries.hybrid import HybridScheduler, cheapest_periods
from windrow.schedulers.queries.interface import (
    CostFunction,
    CostsChanged,
    ExecutionCost,
    PeriodicQuery,
    PeriodsPlanned,
    QueryArrives,
    QueryExpired,
    QueryLeaves,
    QueryScheduler,
    RunFinished,
    RunTogether,
    ScheduleDecision,
    ScheduledQuery,
    ScheduledTask,
    ScheduleEvent,
    SynopsesUpdated,
    TaskRun,
    Why,
)
from windrow.schedulers.queries.late import LateScheduler
from windrow.schedulers.queries.late_pending import LatePendingScheduler
from windrow.schedulers.queries.periods import PeriodPlan, PeriodRule, SubGroupCost, as_asked, cost_per_update

__all__ = [
    "SCHEDULER_NAMES",
    "AggressiveScheduler",
    "ConservativeScheduler",
    "CostFunction",
    "CostsChanged",
    "EdfScheduler",
    "ExecutionCost",
    "HybridScheduler",
    "LatePendingScheduler",
    "LateScheduler",
    "PeriodPlan",
    "PeriodRule",
    "PeriodicQuery",
    "PeriodsPlanned",
    "QueryArrives",
    "QueryExpired",
    "QueryLeaves",
    "QueryScheduler",
    "RunFinished",
    "RunTogether",
    "ScheduleDecision",
    "ScheduleEvent",
    "ScheduledQuery",
    "ScheduledTask",
    "SubGroupCost",
    "SynopsesUpdated",
    "TaskRun",
    "Why",
    "as_asked",
    "cheapest_periods",
    "cost_per_update",
    "query_scheduler",
]
