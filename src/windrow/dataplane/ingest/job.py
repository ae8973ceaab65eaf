"""One Spark job per micro-batch: decode, admit, tag with panes, and pre-aggregate for every query at once.

The job is a projection and one group-by (`grouping_sets.py`), or the projection alone, grouped in the driver
(`gathering.py`). For continuous plans it also keeps the rows (`keeping.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.admission import PUNCTUATION, Admission, judged, tagged
from windrow.dataplane.ingest.bad_text import with_bad_text
from windrow.dataplane.ingest.gathering import gather_columns
from windrow.dataplane.ingest.grouping import Grouping, progress_columns
from windrow.dataplane.ingest.grouping_sets import grouped, set_ids
from windrow.dataplane.ingest.keeping import in_order, keep_only
from windrow.dataplane.kernels import WROTE, KeepRequest, StoreRequest, store_cells
from windrow.dataplane.stores import ARRIVAL, KeptColumn


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch, with valid texts, and how they are admitted. `carry_records`: dead letters carry their
    records. `oversized`: expressions that count the values of a row that are NULL by the bound on values. `keeping`:
    what is kept of the rows for continuous plans; None: nothing. `source`: the rows as they came; None: the same."""

    rows: DataFrame
    stream: StreamDef
    admission: Admission
    carry_records: bool
    oversized: tuple[str, ...] = ()
    keeping: KeepRequest | None = None
    source: DataFrame | None = None

    @classmethod
    def of(cls, rows: DataFrame, stream: StreamDef, admission: Admission, carry_records: bool) -> MicroBatch:
        """The micro-batch of rows as they came."""
        valid = with_bad_text(rows, stream, carry_records)
        return cls(valid, stream, admission, carry_records, source=rows)

    def gathered(self, groupings: Sequence[Grouping]) -> DataFrame:
        """The job whose result the driver groups; `gather` runs it."""
        how = (self.admission, self.carry_records, self.oversized, self.keeping)
        return gather_columns(self.rows, self.stream, groupings, *how)

    def gather(self, job: DataFrame) -> pa.Table:
        """The table of a job made by `gathered`, with the reasons of dead letters."""
        table = run(job)
        return table if self.carry_records else judged(table, self.stream, self.admission)

    def grouped(
        self, groupings: Sequence[Grouping], counts: Mapping[int, pa.Table], storing: StoreRequest | None = None
    ) -> DataFrame:
        """The job that groups. `counts`: by synopsis, the tuples seen so far in each partition.

        With `storing`, its tasks write the cells of synopses in the Spark home. Without groupings, rows that are kept
        are not shuffled: each task sums up its own.
        """
        if self.keeping is not None and not groupings:
            rows = tagged(self.rows, self.stream, self.admission, self.carry_records)
            rows = in_order(self.rows, rows, self.stream, self.keeping)
            sets = set_ids((), len(progress_columns(self.stream)))
            return keep_only(rows, self.stream, self.admission, self.keeping, sets, self.oversized)
        how = (self.admission, self.carry_records, counts, self.oversized, self.keeping)
        job = grouped(self.rows, self.stream, groupings, *how)
        return job if storing is None else _stored(job, storing)

    def computed(self, columns: Sequence[KeptColumn]) -> DataFrame:
        """A job that only computes these columns of every row, to see whether Spark can."""
        assert self.keeping is not None
        texts = [self.keeping.bounded(one.sql) for one in columns if one != ARRIVAL]
        return self.rows.selectExpr(f"max(xxhash64({', '.join(texts) or '1'})) AS computed")

    def dead_letters(self, cap: int) -> DataFrame:
        """The job that fetches the dead letters with their records, at most `cap`."""
        rows = self.rows if self.source is None else with_bad_text(self.source, self.stream, carry_records=True)
        rows = tagged(rows, self.stream, self.admission, True).where(f"__reason <> '{PUNCTUATION}'")
        return rows.selectExpr("__reason", "__record", "__dead_t").limit(cap)


def _stored(job: DataFrame, storing: StoreRequest) -> DataFrame:
    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return store_cells(storing, batches)

    return job.mapInArrow(kernel, StructType([*job.schema.fields, StructField(WROTE, StringType())]))


def estimated_bytes(job: DataFrame) -> int | None:
    """Spark's own estimate of a job's output; None if it does not know."""
    size = int(str(job._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return size if size < 1 << 60 else None


def is_refused(error: Exception) -> bool:
    """Whether Spark refused to plan a job, rather than failed to run it."""
    return isinstance(error, AnalysisException | ParseException)


def run(job: DataFrame) -> pa.Table:
    """Run a job: the one action of a micro-batch."""
    table: Any = job.toArrow()
    return table
