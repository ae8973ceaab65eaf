"""Continuous queries by definition: the user's own text over the full history, at every tick. See `text`."""

from windrow.oracle.continuous.due import DueRange
from windrow.oracle.continuous.plan import StandingPlan
from windrow.oracle.continuous.queries import ContinuousQueries
from windrow.oracle.continuous.reading import is_continuous
from windrow.oracle.continuous.tables import TableHistory

__all__ = ["ContinuousQueries", "DueRange", "StandingPlan", "TableHistory", "is_continuous"]
