"""The formats of answers on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class AnswerFormat(str, Enum):
    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @staticmethod
    def named(name: str) -> AnswerFormat:
        """The format of this name; ValueError if there is none."""
        return AnswerFormat(ALIASES.get(name, name))

    @property
    def suffix(self) -> str:
        """The suffix of a file of this format."""
        return ".md" if self is AnswerFormat.TABLE else f".{self.value}"


ALIASES = {"json": "jsonl"}
"""Other names of formats, here and in `windrow sql`."""

SUFFIXES = {
    ".csv": AnswerFormat.CSV,
    ".jsonl": AnswerFormat.JSONL,
    ".ndjson": AnswerFormat.JSONL,
    ".json": AnswerFormat.JSONL,
    ".parquet": AnswerFormat.PARQUET,
    ".md": AnswerFormat.TABLE,
    ".txt": AnswerFormat.TABLE,
}


@dataclass(frozen=True)
class AnswerOutput:
    """How a run shows answers: all, or only the last; in which format; where (None: on standard output)."""

    is_all: bool = False
    format: AnswerFormat = AnswerFormat.TABLE
    path: Path | None = None

    @staticmethod
    def of(is_all: bool, given: AnswerFormat | None, path: Path | None) -> AnswerOutput:
        """A format or a path means all answers. Without a format, the path's suffix says it."""
        by_suffix = AnswerFormat.TABLE if path is None else SUFFIXES.get(path.suffix.lower(), AnswerFormat.TABLE)
        return AnswerOutput(is_all or given is not None or path is not None, given or by_suffix, path)

    @property
    def owns_stdout(self) -> bool:
        """Whether standard output has answers for programs, so that everything else goes to standard error."""
        return self.is_all and self.path is None and self.format is not AnswerFormat.TABLE
