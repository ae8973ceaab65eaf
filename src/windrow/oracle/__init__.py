"""A naive evaluator of standing queries, against which the engine is tested. See `oracle.oracle`."""

from windrow.oracle.admission import Admitted, Arrival, Batch, End, OracleDeadLetter, Punctuation, Reason, admit
from windrow.oracle.extents import extents_of
from windrow.oracle.oracle import Answers, Oracle
from windrow.oracle.values import equal_rows, equal_values

__all__ = [
    "Admitted",
    "Answers",
    "Arrival",
    "Batch",
    "OracleDeadLetter",
    "End",
    "Oracle",
    "Punctuation",
    "Reason",
    "admit",
    "equal_rows",
    "equal_values",
    "extents_of",
]
