"""The option `path` of a files source: one file, a directory, a pattern, or a list of these.

Patterns are Hadoop's, as Spark reads them: `*`, `?`, `[abc]`, `{a,b}`, and a backslash before a character that means
itself.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from windrow.cql.statements import Options
from windrow.errors import SourceError

BACKSLASH = "\\"
_SPECIAL = "{}[]*?" + BACKSLASH
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_LOCAL = re.compile(r"file:/+")


def paths_of(options: Options) -> tuple[str, ...]:
    """The values of `path`; one per element of a list."""
    return tuple(value for name, value in options if name.lower() == "path")


def with_paths(options: Options, paths: Sequence[str]) -> Options:
    """The options with other values of `path`, in the place of the first one."""
    first = next(i for i, (name, _) in enumerate(options) if name.lower() == "path")
    rest = [option for option in options if option[0].lower() != "path"]
    rest[first:first] = [(options[first][0], path) for path in paths]
    return tuple(rest)


def resolved(options: Options) -> Options:
    """The options with absolute paths, so that they mean the same files in another working directory."""
    paths = paths_of(options)
    return with_paths(options, list(dict.fromkeys(map(resolve, paths)))) if paths else options


def resolve(path: str) -> str:
    """A path as absolute text; `~` is the home directory. A file or directory of exactly this name is meant before a
    pattern: its special characters get a backslash."""
    if "\0" in path:
        raise SourceError("a path cannot hold a NUL character", remedy="Correct the path.")
    if path.strip() == "":
        raise SourceError("a stream from 'files' needs a path", remedy="FROM files OPTIONS (path '…', format 'json').")
    if is_remote(path):
        return path
    text = os.path.expanduser(_LOCAL.sub("/", path, count=1) if _LOCAL.match(path) else path)
    if os.path.lexists(text):
        return escaped(os.path.abspath(text))
    return os.path.normpath(text if os.path.isabs(text) else f"{escaped(os.getcwd())}/{text}")


def is_remote(path: str) -> bool:
    """Whether the path names a file system other than the local one."""
    return _URI.match(path) is not None and not _LOCAL.match(path)


def is_pattern(path: str) -> bool:
    return any(character in _SPECIAL for character in path)


def escaped(path: str) -> str:
    """The pattern that matches just this path."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in path)


def literal(path: str) -> str | None:
    """The one path that the text means; None if it is a pattern for several."""
    plain = re.sub(r"\\(.)", "", path)
    return None if is_pattern(plain) else re.sub(r"\\(.)", r"\1", path)


def check_paths(spark: SparkSession, stream: str, paths: Sequence[str]) -> list[str]:
    """Raise SourceError if a path cannot be read. Return what the user should know: a path may be empty as yet."""
    if len(paths) > 1:
        _check_list(paths)
    notes = []
    for path in paths:
        plain = literal(path)
        if plain is not None and not is_remote(path):
            _check_local(f"stream '{stream}'", plain)
            entries = list(os.scandir(plain)) if os.path.isdir(plain) else None
            is_empty = entries == []
        else:
            is_empty = _is_empty_pattern(spark, stream, path)
        if is_empty:
            what = "matches no file" if plain is None else "is empty"
            notes.append(f"{path} {what} as yet; files are read when they appear")
    return notes


def _check_list(paths: Sequence[str]) -> None:
    """A list names files and directories that hold none of each other: Spark would read a file twice otherwise."""
    for path in paths:
        plain = literal(path)
        if plain is None:
            raise SourceError(
                f"{path} is a pattern, and a list of paths holds files and directories",
                remedy="Write one pattern for all: path '/data/{2025,2026}/*.json'.",
            )
    roots = {_root(path) for path in paths}
    if len(roots) != 1:
        raise SourceError(
            f"the paths of a list are on different file systems: {', '.join(sorted(roots))}",
            remedy="Create one stream per file system.",
        )
    known = set(paths)
    for path in paths:
        above = next((str(p) for p in PurePosixPath(path).parents if str(p) in known), None)
        if above is not None:
            raise SourceError(f"{path} is in {above}, and both are in the list", remedy="Keep one of the two.")


def check_loaded(table: str, path: str) -> None:
    """Raise SourceError if a local path that LOAD names, and that is no pattern, cannot be read."""
    plain = literal(path)
    if plain is not None and not is_remote(path):
        _check_local(f"table '{table}'", plain)


def _check_local(reader: str, path: str) -> None:
    if not os.path.exists(path):
        raise SourceError(
            f"{reader} reads {path}, which does not exist",
            remedy=_instead_of(path),
        )
    is_directory = os.path.isdir(path)
    if not is_directory and not os.path.isfile(path):
        raise SourceError(
            f"{reader} reads {path}, which is neither a file nor a directory",
            remedy="Name a file, a directory, a pattern or a list of these.",
        )
    if not os.access(path, os.R_OK | os.X_OK if is_directory else os.R_OK):
        raise SourceError(f"{reader} may not read {path}", remedy="Give this user the permission to read it.")


def _instead_of(path: str) -> str:
    """What to do about a path that does not exist: the neighbour with the nearest name, or a new directory."""
    folder, name = os.path.split(path)
    try:
        near = get_close_matches(name, os.listdir(folder), n=1)
    except OSError:
        near = []
    if near:
        return f"Did you mean {os.path.join(folder, near[0])}?"
    if os.path.splitext(name)[1]:
        return "Correct the path. To read files that come later, name their directory."
    return f"Correct the path, or create the directory first: mkdir -p {path}"


def _is_empty_pattern(spark: SparkSession, stream: str, path: str) -> bool:
    """Whether nothing matches a pattern. Its leading directories must exist; so must a remote path."""
    if "**" in re.sub(r"\\.", "", path):
        raise SourceError(
            f"'**' in the path {path}: Spark has no pattern for directories at any depth",
            remedy="Write a * for each level; or name the directory, and add"
            " recursiveFileLookup 'true', pathGlobFilter '*.json'.",
        )
    if not is_remote(path):
        _check_local(f"stream '{stream}'", os.path.dirname(re.split(r"[{}\[\]*?\\]", path, maxsplit=1)[0]))
    java: Any = spark._jvm
    try:
        place = java.org.apache.hadoop.fs.Path(path)
        system = place.getFileSystem(spark._jsc.hadoopConfiguration())
        found = system.globStatus(place)
    except Py4JJavaError as error:
        raise SourceError(
            f"stream '{stream}' cannot read {path}: {error.java_exception.getMessage()}",
            remedy="Correct the path. In a pattern, a backslash before a character takes it as it is.",
        ) from None
    if found is None:
        raise SourceError(f"stream '{stream}' reads {path}, which does not exist", remedy="Correct the path.")
    names = re.findall(r"path=(.*?); isDirectory=(true|false)", joined(spark, found), re.DOTALL)
    twice = next((name for (name, _), count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SourceError(f"{path} matches {twice} twice", remedy="Write it so that each file matches once.")
    return not names


def joined(spark: SparkSession, array: Any) -> str:
    """The elements of an array of the JVM as lines, in one call; an element at a time would be slow."""
    java: Any = spark._jvm
    return str(java.scala.collection.immutable.ArraySeq.unsafeWrapArray(array).mkString("\n"))


def spark_path(paths: Sequence[str]) -> str:
    """The one text that Spark's file source reads for resolved paths: it takes neither a list nor a file, but it takes
    a pattern that matches just these."""
    if len(paths) > 1:
        root = _root(paths[0])
        return root + "{" + ",".join(_alternative(path[len(root) :]) for path in paths) + "}"
    path = paths[0]
    if is_pattern(path) or is_remote(path) or not os.path.isfile(path):
        return path
    head, _, name = path.rpartition("/")
    # Hadoop looks up a name with just a backslash; for a name in braces it lists the directory.
    return f"{head}/{name.replace('.', BACKSLASH + '.', 1)}" if "." in name else f"{head}/{{{_alternative(name)}}}"


def _root(path: str) -> str:
    """The beginning of a path up to the first directory: `/`, or `s3a://bucket/`."""
    match = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/+[^/]*/|/", path)
    return match[0] if match else ""


def _alternative(path: str) -> str:
    """A path inside `{…,…}`, where Hadoop takes away one level of backslashes."""
    return re.sub(r"\\(.)", r"\\\\\\\1", path).replace(",", "\\,")
