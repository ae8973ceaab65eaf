"""Finds the lines of malformed records in local text files. Only files that have such records are read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.admission import MALFORMED
from windrow.dataplane.ingest.bad_text import REPLACED, BadRecord, readable, unpacked
from windrow.dataplane.ingest.deposit import DeadLetter

_BLOCK = 1 << 23
_MARK = b"\xef\xbb\xbf"

_Line = tuple[int, bytes]
_Found = tuple[DeadLetter, BadRecord]


def shown_path(uri: str) -> str:
    """A file's path as a user writes it."""
    parts = urlsplit(uri)
    return unquote(parts.path if parts.scheme in ("", "file") else uri)


def with_places(dead: Sequence[DeadLetter], stream: StreamDef) -> tuple[DeadLetter, ...]:
    """The dead letters of a micro-batch of files; malformed records get their file and line. The line is unknown if the
    file is not local, or no line of it reads like the record."""
    placed: list[DeadLetter] = []
    by_file: dict[str, list[_Found]] = defaultdict(list)
    for letter in dead:
        if letter.reason != MALFORMED or letter.record is None:
            placed.append(letter)
            continue
        bad = unpacked(letter.record)
        found = replace(letter, record=readable(bad.text), file=shown_path(bad.file), line=bad.row)
        if bad.row is None:
            by_file[bad.file].append((found, bad))
        else:
            placed.append(found)
    options = {name.lower(): value for name, value in stream.source_options}
    for uri, letters in by_file.items():
        placed += _in_file(uri, letters, options)
    return tuple(placed)


def _in_file(uri: str, letters: Sequence[_Found], options: Mapping[str, str]) -> Iterator[DeadLetter]:
    """The malformed records of one file, with their lines."""
    is_csv = options["format"].lower() == "csv"
    wanted: dict[bytes, list[_Line]] = {_key(bad.text, options): [] for _, bad in letters if bad.is_line}
    others: list[_Line] = []  # lines of CSV with bytes that are not text, and that Spark took nevertheless
    for line in _lines(uri, options):
        text = _as_read(line[1], options) if is_csv else line[1]
        if text in wanted:
            wanted[text].append(line)
        elif is_csv and REPLACED.encode() in text:
            others.append(line)
    for letter, bad in letters:
        if bad.is_line:
            lines = wanted[_key(bad.text, options)]
            yield replace(letter, record=_shown(lines[0][1], bad), line=lines[0][0]) if lines else letter
            del lines[: letter.count]
    taken = [letter for letter, bad in letters if not bad.is_line]
    if sum(letter.count for letter in taken) == len(others):
        yield from (replace(taken[0], record=readable(raw), point=None, count=1, line=n) for n, raw in others)
    else:
        yield from taken


def _key(text: bytes, options: Mapping[str, str]) -> bytes:
    """The line that a record is found by: its first one."""
    return text if "linesep" in options else (text.splitlines() or [b""])[0]


def _shown(raw: bytes, bad: BadRecord) -> str:
    """The record as it stands in the file; of one that has several lines, as Spark read it."""
    return readable(raw if len(bad.text.splitlines()) < 2 else bad.text)


def _as_read(line: bytes, options: Mapping[str, str]) -> bytes:
    """A line of CSV as Spark reads it, in UTF-8."""
    if line.isascii():
        return line
    try:
        return line.decode(options.get("encoding", options.get("charset", "utf-8")), "replace").encode()
    except LookupError:
        return line


def _lines(uri: str, options: Mapping[str, str]) -> Iterator[_Line]:
    """The lines of a file with their numbers, as far as it can be read."""
    number, end = 0, options.get("linesep", "").encode()
    for block in _blocks(uri, end or b"\n"):
        lines = block.removesuffix(end).split(end) if end else block.splitlines()
        if number == 0 and lines:
            lines[0] = lines[0].removeprefix(_MARK)
        yield from enumerate(lines, number + 1)
        number += len(lines)


def _blocks(uri: str, end: bytes) -> Iterator[bytes]:
    """A local file, unpacked, in blocks of whole lines."""
    if urlsplit(uri).scheme not in ("", "file"):
        return
    rest = b""
    try:
        with pa.input_stream(shown_path(uri), compression="detect") as file:
            while block := file.read(_BLOCK):
                whole, found, rest = (rest + block).rpartition(end)
                if found:
                    yield whole + found
    except (OSError, pa.ArrowException):
        return
    if rest:
        yield rest
