"""One Spark job per micro-batch: decode, admit, tag with panes, and pre-aggregate for every query at once.

The job is a projection and one group-by (`grouping_sets.py`), or the projection alone, grouped in the driver
(`gathering.py`). For continuous plans it also keeps the rows (`keeping.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.admission import PUNCTUATION, Admission, judged, tagged
from windrow.dataplane.ingest.bad_text import are_valid, has_unchecked_texts, with_bad_text, with_valid_text
from windrow.dataplane.ingest.gathering import gather_columns, plain_texts
from windrow.dataplane.ingest.grouping import Grouping, progress_columns
from windrow.dataplane.ingest.grouping_sets import grouped, set_ids
from windrow.dataplane.ingest.keeping import in_order, keep_only
from windrow.dataplane.kernels import WROTE, KeepRequest, StoreRequest, store_cells
from windrow.dataplane.stores import ARRIVAL, KeptColumn


@dataclass(frozen=True)
class GatherJob:
    """A job whose result the driver groups. `texts`: the columns of its result whose texts nobody has checked."""

    frame: DataFrame
    groupings: Sequence[Grouping]
    texts: Sequence[str]


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch as they came, and how they are admitted. `carry_records`: dead letters carry their
    records. `places`: reads the rows again, with their places in files; None: they have what places there are.
    `oversized`: expressions that count the values of a row that are NULL by the bound on values. `keeping`: what is
    kept of the rows for continuous plans; None: nothing."""

    source: DataFrame
    stream: StreamDef
    admission: Admission
    carry_records: bool
    places: Callable[[], DataFrame] | None = None
    oversized: tuple[str, ...] = ()
    keeping: KeepRequest | None = None

    @cached_property
    def rows(self) -> DataFrame:
        """The rows with valid texts."""
        if self.carry_records:
            return with_bad_text(self.source, self.stream)
        return with_valid_text(self.source, self.stream) if self._has_unchecked_texts else self.source

    @property
    def _has_unchecked_texts(self) -> bool:
        return has_unchecked_texts(self.source, self.stream)

    def placed(self) -> MicroBatch:
        """The micro-batch with the places of its rows, on which the order of arrival depends."""
        return self if self.places is None else replace(self, source=self.places(), places=None)

    def gathered(self, groupings: Sequence[Grouping]) -> GatherJob:
        """The job whose result the driver groups; `gather` runs it.

        Texts that are gathered as they came are checked in the driver, which takes 5 ms for 500,000.
        """
        texts = None
        if not self.carry_records and self._has_unchecked_texts:
            texts = plain_texts(self.stream, groupings, self.oversized, self.keeping)
        rows = self.rows if texts is None else self.source
        return GatherJob(self._gather_columns(rows, groupings), groupings, texts or ())

    def _gather_columns(self, rows: DataFrame, groupings: Sequence[Grouping]) -> DataFrame:
        how = (self.admission, self.carry_records, self.oversized, self.keeping)
        return gather_columns(rows, self.stream, groupings, *how)

    def gather(self, job: GatherJob) -> pa.Table:
        """The table of a job made by `gathered`, with the reasons of dead letters."""
        table = run(job.frame)
        if not are_valid(table.column(name) for name in job.texts):
            table = run(self._gather_columns(self.rows, job.groupings))
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
        """The job that fetches the dead letters of a placed micro-batch with their records, at most `cap`."""
        rows = with_bad_text(self.source, self.stream)
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
