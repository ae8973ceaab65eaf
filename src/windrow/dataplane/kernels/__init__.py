"""Kernels: the code that Spark tasks run over Arrow data and blocks. They import no pyspark."""

from windrow.dataplane.kernels.answering import (
    ANSWER_SCHEMA,
    BucketAnswer,
    QueryTask,
    Question,
    WindowRequest,
    answer_buckets,
)
from windrow.dataplane.kernels.folding import Collapse, fold_buckets
from windrow.dataplane.kernels.keeping import (
    KEPT,
    REPORT,
    Keeper,
    KeepRequest,
    SummaryColumns,
    keep_and_pass,
    keep_and_sum,
    kept_name,
    reported,
)
from windrow.dataplane.kernels.loading import StoredCells, write_cells
from windrow.dataplane.kernels.revising import (
    CORRECTION_SCHEMA,
    BucketCorrection,
    RevisedWindows,
    Revision,
    revise_buckets,
)
from windrow.dataplane.kernels.storing import WROTE, BlockReport, CellColumns, StoreRequest, StoreTarget, store_cells

__all__ = [
    "ANSWER_SCHEMA",
    "CORRECTION_SCHEMA",
    "KEPT",
    "REPORT",
    "WROTE",
    "BlockReport",
    "BucketAnswer",
    "BucketCorrection",
    "CellColumns",
    "Collapse",
    "KeepRequest",
    "Keeper",
    "QueryTask",
    "Question",
    "RevisedWindows",
    "Revision",
    "StoreRequest",
    "StoreTarget",
    "StoredCells",
    "SummaryColumns",
    "WindowRequest",
    "answer_buckets",
    "fold_buckets",
    "keep_and_pass",
    "keep_and_sum",
    "kept_name",
    "reported",
    "revise_buckets",
    "store_cells",
    "write_cells",
]
