"""The output of a file sink: what stands at its path, who wrote it, and what `overwrite` may delete."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.dataplane.answers.finishing import WINDOW_COLUMNS
from windrow.dataplane.sinks.files import stage_name, stages_of
from windrow.dataplane.sinks.ownership import (
    MARK,
    OUTPUT,
    STAGE,
    Claim,
    OutputOwner,
    gone,
    mark_name,
    not_ours,
    read_mark,
    refuse_copied,
    refuse_live,
    write_mark,
)
from windrow.dataplane.sinks.places import open_regular, refused
from windrow.durable import sync

_LONGEST_LINE = 1 << 20

Stranger = tuple[str, OutputOwner | None]
"""A file that a query did not write, and who did, if that is known."""


class SinkOutput(Protocol):
    """What one query writes at a path."""

    query: str
    path: Path
    mark: Path

    def exists(self) -> bool: ...

    def owners(self) -> Iterator[OutputOwner]:
        """All queries that the marks at the path name."""
        ...

    def stranger(self, claim: Claim, neighbours: Collection[str] | None) -> Stranger | None:
        """A file that the query did not write; None if there is none. `neighbours` are the other queries that may write
        there; None: all of this state directory."""
        ...

    def removable(self, neighbours: Collection[str]) -> list[Path]:
        """The files that `overwrite` deletes. Raises SinkError if there is anything that is not output of a sink."""
        ...


def check_output(output: SinkOutput, claim: Claim, neighbours: Collection[str], overwrite: bool) -> list[Path]:
    """Raise SinkError unless a new query may write to the path. Return the files to delete first (`overwrite`)."""
    for other in output.owners():
        refuse_live(output.query, output.path, claim.owner, other)
        refuse_copied(output.query, output.path, claim.owner, other)
    if overwrite:
        return output.removable(neighbours)
    found = output.stranger(claim, neighbours)
    if found is not None:
        raise not_ours(output.query, output.path, claim.owner, *found)
    return []


def remove_output(files: Collection[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
    for directory in {file.parent for file in files}:
        sync(directory)


def take_output(output: SinkOutput, claim: Claim) -> None:
    """Make sure that the path is this query's before it is written to. Raises SinkError if it is not."""
    mine, other = claim.owner, read_mark(output.mark)
    if other is not None and mine.goes_on(other):
        refuse_copied(output.query, output.path, mine, other)
    else:
        found = output.stranger(claim, None)
        if found is not None:
            raise not_ours(output.query, output.path, mine, *found)
        refuse_live(output.query, output.path, mine, other)
        if claim.begun and not output.exists():
            raise gone(output.query, output.path)
    if other != mine:
        output.mark.parent.mkdir(parents=True, exist_ok=True)
        write_mark(output.mark, mine)


def may_sweep(output: SinkOutput, claim: Claim | None) -> bool:
    """Whether the stages at the path are this query's: those of another must stay."""
    other = read_mark(output.mark)
    return claim is None or other is None or claim.owner.goes_on(other)


class LinesOutput:
    """One file of JSON lines."""

    def __init__(self, query: str, path: Path):
        self.query = query
        self.path = path
        self.mark = path.parent / mark_name(path.name)

    def exists(self) -> bool:
        return self.path.exists()

    def owners(self) -> Iterator[OutputOwner]:
        owner = read_mark(self.mark)
        if owner is not None:
            yield owner

    def stranger(self, claim: Claim, neighbours: Collection[str] | None) -> Stranger | None:
        owner = read_mark(self.mark)
        is_mine = claim.begun if owner is None else claim.owner.goes_on(owner)
        if is_mine:
            return None
        if self.path.is_file() and self.path.stat().st_size > 0:
            return self.path.name, owner
        return next(((file.name, owner) for file in self._stages(owner)), None)

    def _stages(self, owner: OutputOwner | None) -> list[Path]:
        return [] if owner is None else stages_of(self.path.parent, stage_name(owner.query, self.path.name))

    def removable(self, neighbours: Collection[str]) -> list[Path]:
        files = [*self._stages(read_mark(self.mark)), *([self.mark] if self.mark.is_file() else [])]
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return files
        if not stat.S_ISREG(found.st_mode) or (
            found.st_size > 0 and not _is_answer_line(self.path, read_mark(self.mark))
        ):
            raise _not_output(self.query, self.path, self.path.name)
        return [self.path, *files]


class DirectoryOutput:
    """The Parquet files of one query, `<name>-<number>.parquet`, in a directory that queries may share."""

    def __init__(self, query: str, name: str, path: Path):
        self.query = query
        self.path = path
        self.mark = path / mark_name(name)
        self._name = name

    def exists(self) -> bool:
        return self.path.is_dir()

    def _marks(self) -> dict[str, OutputOwner]:
        names = sorted(os.listdir(self.path)) if self.path.is_dir() else []
        found = {match["name"]: read_mark(self.path / name) for name in names if (match := MARK.match(name))}
        return {name: owner for name, owner in found.items() if owner is not None}

    def owners(self) -> Iterator[OutputOwner]:
        yield from self._marks().values()

    def stranger(self, claim: Claim, neighbours: Collection[str] | None) -> Stranger | None:
        marks = self._marks()
        for file in _visible(self.path):
            match = OUTPUT.match(file) or STAGE.match(file)
            name = None if match is None else match["query"]
            owner = None if name is None else marks.get(name)
            if name == self._name:
                is_known = claim.begun if owner is None else claim.owner.goes_on(owner)
            elif neighbours is None:
                is_known = owner is not None and owner.state == claim.owner.state
            else:
                is_known = name in neighbours
            if not is_known:
                return file, owner or next(iter(marks.values()), None)
        return None

    def removable(self, neighbours: Collection[str]) -> list[Path]:
        if not self.path.is_dir():
            return []
        if self.path.is_symlink() or os.path.realpath(self.path) in _never_emptied():
            raise _not_output(self.query, self.path, "the directory itself")
        files, marks = [], self._marks()
        for entry in sorted(os.scandir(self.path), key=lambda entry: entry.name):
            match = OUTPUT.match(entry.name) or STAGE.match(entry.name) or MARK.match(entry.name)
            if match is None and entry.name.startswith((".", "_")):
                continue
            is_file = entry.is_file(follow_symlinks=False)
            if match is None or not is_file or not _is_recognised(Path(entry.path), marks.get(match[1])):
                raise _not_output(self.query, self.path, entry.name)
            if match[1] not in neighbours:
                files.append(Path(entry.path))
        return files


def _visible(directory: Path) -> Iterator[str]:
    """The files in a directory that a reader of the whole directory would read, and stages; relative to it."""
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        at_top = Path(folder) == directory
        for name in sorted(files):
            if not name.startswith((".", "_")) or (at_top and STAGE.match(name)):
                yield os.path.relpath(os.path.join(folder, name), directory)


def _is_recognised(file: Path, owner: OutputOwner | None) -> bool:
    """Whether a file with the name of output, a stage or a mark is one. `owner` is the query that the mark names."""
    if file.suffix != ".parquet":
        return file.suffix == ".staged" or read_mark(file) is not None
    try:
        names = tuple(pq.read_schema(file).names)
    except (OSError, pa.ArrowException):
        return False
    return names[: len(WINDOW_COLUMNS)] == WINDOW_COLUMNS or _has_columns(owner, names)


def _is_answer_line(file: Path, owner: OutputOwner | None) -> bool:
    """Whether the first line is a row as the sink writes it. `owner` is the query that the mark names."""
    with open(open_regular(file, os.O_RDONLY), "rb") as lines:
        try:
            row = json.loads(lines.readline(_LONGEST_LINE))
        except ValueError:
            return False
    if not isinstance(row, dict):
        return False
    return tuple(row)[: len(WINDOW_COLUMNS)] == WINDOW_COLUMNS or _has_columns(owner, tuple(row))


def _has_columns(owner: OutputOwner | None, names: Sequence[str]) -> bool:
    """Whether these are the columns of a continuous query's sink, whose rows have no columns in common otherwise."""
    if owner is None or owner.mode is None or len(owner.columns) != len(names):
        return False
    return all(known == name or known.startswith(f"{name} ") for known, name in zip(owner.columns, names, strict=True))


def _never_emptied() -> set[str]:
    return {os.sep, os.path.realpath(os.path.expanduser("~"))}


def _not_output(query: str, path: Path, file: str) -> Exception:
    return refused(
        query,
        path,
        f"overwrite deletes only the output of a sink, and {file} is not recognisable as that",
        "Name another path, or remove it yourself. Nothing was deleted.",
    )
