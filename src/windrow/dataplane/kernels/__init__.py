"""Kernels: the code that Spark tasks run over Arrow data and blocks. They import no pyspark."""

from windrow.dataplane.kernels.answering import ANSWER_SCHEMA, Answered, Asked, Question, Told, answer_buckets
from windrow.dataplane.kernels.folding import Collapse, fold_buckets
from windrow.dataplane.kernels.loading import Stored, write_cells
from windrow.dataplane.kernels.revising import CORRECTION_SCHEMA, Corrected, Revised, Revision, revise_buckets
from windrow.dataplane.kernels.storing import WROTE, CellColumns, Reported, Storing, Target, store_cells

__all__ = [
    "ANSWER_SCHEMA",
    "CORRECTION_SCHEMA",
    "WROTE",
    "Answered",
    "Asked",
    "CellColumns",
    "Collapse",
    "Corrected",
    "Question",
    "Reported",
    "Revised",
    "Revision",
    "Stored",
    "Storing",
    "Target",
    "Told",
    "answer_buckets",
    "fold_buckets",
    "revise_buckets",
    "store_cells",
    "write_cells",
]
