"""What is known of a source's columns: those that are declared and found, and those that nobody declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.cql.tokens import nearest
from windrow.dataplane.ingest.lines import shown_path
from windrow.errors import SourceError

MOST_UNDECLARED = 100
"""The undeclared columns of a stream that are kept by name; JSON may have a new key in every record."""


@dataclass(frozen=True)
class FileColumns:
    """The columns that a file has, with their types where the format has types (else None)."""

    uri: str
    types: Mapping[str, str | None]


@dataclass(frozen=True)
class UndeclaredColumn:
    """A column that the data has and CREATE STREAM does not: in how many files, and in which first."""

    name: str
    type: str | None
    files: int
    first_file: str


@dataclass(frozen=True)
class SourceColumns:
    """What the micro-batches so far have had: `found` are declared columns, of formats where a record may leave out a
    column (JSON). `more`: there are undeclared columns beyond those that are kept."""

    found: frozenset[str] = frozenset()
    undeclared: Mapping[str, UndeclaredColumn] = field(default_factory=dict)
    more: bool = False

    def after(self, stream: StreamDef, files: Sequence[FileColumns], found: Iterable[str] = ()) -> SourceColumns:
        """What is known after a micro-batch of these files, in which the declared columns `found` were found."""
        declared = {name for name, _ in stream.columns}
        if not is_exact(stream):
            declared = {name.lower() for name in declared}
        undeclared, more = dict(self.undeclared), self.more
        for file in files:
            for name, kind in file.types.items():
                if (name if is_exact(stream) else name.lower()) in declared:
                    continue
                known = undeclared.get(name)
                if known is None and len(undeclared) >= MOST_UNDECLARED:
                    more = True
                elif known is None:
                    undeclared[name] = UndeclaredColumn(name, kind, 1, shown_path(file.uri))
                else:
                    undeclared[name] = UndeclaredColumn(name, known.type, known.files + 1, known.first_file)
        after = SourceColumns(self.found | frozenset(found), undeclared, more)
        return self if after == self else after


def is_exact(stream: StreamDef) -> bool:
    """Whether names in the data must be written as declared, with upper and lower case: only in JSON."""
    return dict(stream.source_options).get("format", "").lower() == "json"


def missing_columns(stream: StreamDef, names: Iterable[str]) -> list[str]:
    """The columns that the source must have and that are not among these names."""
    if is_exact(stream):
        there = set(names)
        return [name for name in stream.required if name not in there]
    there = {name.lower() for name in names}
    return [name for name in stream.required if name.lower() not in there]


def missing_error(stream: StreamDef, missing: Sequence[str], names: Iterable[str], files: Sequence[str]) -> SourceError:
    """The error for declared columns that no record of a micro-batch has; `names` are those that the data has."""
    declared = {name.lower(): name for name, _ in stream.columns if name not in missing}
    free = sorted({name for name in names if name and name.lower() not in declared})
    which = f"column '{missing[0]}'" if len(missing) == 1 else f"columns {', '.join(map(repr, missing))}"
    hints = [_hint(stream, name, free) + _directory_hint(name, files) for name in missing]
    first = missing[0]
    declaration = f"{quote_name(first)} {stream.type_of(first)} NULLABLE MISSING"
    others = f"The data also has: {', '.join(free[:20])}{', …' if len(free) > 20 else ''}. " if free else ""
    return SourceError(
        f"no record of a micro-batch of stream '{stream.name}' has the declared {which}: {_shown(files)}",
        remedy=f"{''.join(hints)}{others}Correct the name in the stream or in the data. If it may be missing, and is"
        f" NULL then, repeat CREATE STREAM with {declaration}, or with OPTIONS (…, missing_columns 'null') for all"
        " columns. Nothing of the micro-batch was taken in; it is read again.",
    )


def _hint(stream: StreamDef, name: str, free: Sequence[str]) -> str:
    same = next((other for other in free if other.lower() == name.lower()), None)
    if same is not None:
        return f"Did you mean '{same}' for '{name}'? JSON distinguishes upper and lower case. "
    near = nearest(name, free)
    return f"Did you mean '{near}' for '{name}'? " if near else ""


def _directory_hint(name: str, files: Sequence[str]) -> str:
    path = next((path for path in map(shown_path, files) if f"/{name.lower()}=" in path.lower()), None)
    if path is None:
        return ""
    base = path[: path.lower().index(f"/{name.lower()}=")] or "/"
    return f"For '{name}' of the directories, add the option basePath '{base}', without recursiveFileLookup. "


def _shown(files: Sequence[str]) -> str:
    if len(files) == 1:
        return shown_path(files[0])
    return f"{len(files)} files, such as {shown_path(files[0])}"
