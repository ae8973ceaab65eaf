"""What a window store keeps of a stream's tuples."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from windrow.plan.nodes import ROW_COLUMN
from windrow.types import SqlType


@dataclass(frozen=True)
class KeptColumn:
    """A column that Spark computes of a tuple on arrival: `sql` is Spark SQL over the stream's columns."""

    sql: str
    type: SqlType

    @cached_property
    def id(self) -> str:
        """The stable name of the column in files: equal text gives equal names."""
        return hashlib.sha1(f"{self.sql}\x00{self.type}".encode()).hexdigest()[:12]

    def saved(self) -> list[str]:
        return [self.sql, self.type.name]

    @classmethod
    def restored(cls, saved: list[str]) -> KeptColumn:
        return cls(saved[0], SqlType(saved[1]))


ARRIVAL = KeptColumn(ROW_COLUMN, SqlType("BIGINT"))
"""A tuple's number in the order of arrival, which count-based windows need. No expression computes it: tuples are
numbered when they are admitted (`ingest/arrival.py`)."""


@dataclass(frozen=True)
class PackedFlags:
    """Up to 63 conditions as the bits of one BIGINT, the first as the lowest. Files keep the conditions; a reader that
    asks for them in this form handles one column instead of many."""

    flags: tuple[KeptColumn, ...]
    type: ClassVar[SqlType] = SqlType("BIGINT")

    def __post_init__(self) -> None:
        if not 0 < len(self.flags) < 64 or any(one.type.name != "BOOLEAN" for one in self.flags):
            raise ValueError("from one to 63 conditions are packed")

    @cached_property
    def id(self) -> str:
        """The name of the column in what is read."""
        return hashlib.sha1(" ".join(one.id for one in self.flags).encode()).hexdigest()[:12]


ReadColumn = KeptColumn | PackedFlags
"""What can be read of a file."""


@dataclass(frozen=True)
class WindowStoreSpec:
    """What the next micro-batch adds to a store: the `columns` of every row for which one of `keep_if` is true (none:
    of all rows), with its point on the punctuated column `axis`. The values of `keys` determine a row's bucket."""

    id: int
    stream: str
    axis: str
    keys: tuple[KeptColumn, ...]
    columns: tuple[KeptColumn, ...]
    keep_if: tuple[KeptColumn, ...] = ()

    def __post_init__(self) -> None:
        if any(one.type.name != "BOOLEAN" for one in self.keep_if):
            raise ValueError("rows are kept by conditions")

    @property
    def owner(self) -> str:
        """The owner of its files."""
        return f"stores/{self.id}"

    @cached_property
    def evaluated(self) -> tuple[KeptColumn, ...]:
        """Everything that Spark must compute for it, each once."""
        return tuple(dict.fromkeys((*self.columns, *self.keys, *self.keep_if)))
