"""The lines of malformed records are found in text files of every kind."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from windrow.catalog.definitions import define_stream
from windrow.cql.parser import parse
from windrow.dataplane.ingest import lines
from windrow.dataplane.ingest.bad_text import readable
from windrow.dataplane.ingest.deposit import DeadLetter
from windrow.dataplane.ingest.lines import with_places


def letter(path: Path, text: bytes, row: str = "line", count: int = 1) -> DeadLetter:
    return DeadLetter("malformed record", f"{path.as_uri()}\n{row}\n{text.hex()}", None, count)


def placed(dead: list[DeadLetter], kind: str = "json", options: str = "") -> list[tuple[str | None, int | None]]:
    (statement,) = parse(f"CREATE STREAM s (t INT) FROM files OPTIONS (path '/x', format '{kind}'{options})")
    return [(found.record, found.line) for found in with_places(dead, define_stream(statement))]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 5)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("packed", [False, True])
def test_line_ends(tmp_path: Path, end: bytes, packed: bool) -> None:
    path = tmp_path / ("a b.json" + (".gz" if packed else ""))
    data = b"\xef\xbb\xbf" + end.join([b"first", b"", b"", b"bad\xff", b"x" * 20, b"bad\xff", b"last"])
    path.write_bytes(gzip.compress(data) if packed else data)
    dead = [letter(path, text) for text in (b"bad\xff", b"first", b"bad\xff", b"last", b"elsewhere")]
    assert placed(dead) == [("bad\\xff", 4), ("first", 1), ("bad\\xff", 6), ("last", 7), ("elsewhere", None)]


def test_equal_records_of_one_letter(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"bad\nbad\nbad\n")
    assert placed([letter(path, b"bad", count=2), letter(path, b"bad")]) == [("bad", 1), ("bad", 3)]


def test_line_separator_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"a;b\n1;c;")
    assert placed([letter(path, b"b\n1"), letter(path, b"c")], options=", lineSep ';'") == [("b\n1", 2), ("c", 3)]


def test_csv_lines_that_spark_took(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,a\n2,\xff\nx,\xff\n")
    taken, refused = letter(path, b'{"t":2}', "fields"), letter(path, "x,\ufffd".encode())
    assert placed([taken, refused], "csv") == [("x,\\xff", 3), ("2,\\xff", 2)]
    assert placed([taken, taken, refused], "csv")[1:] == [('{"t":2}', None)] * 2, "it is not known which lines"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    remote = DeadLetter("malformed record", "s3a://bucket/a%20b.json\nline\n" + b"x".hex(), None, 1)
    (found,) = with_places([remote], _json())
    assert (found.file, found.line) == ("s3a://bucket/a b.json", None)
    assert placed([letter(tmp_path / "gone.json", b"x")]) == [("x", None)]


def _json() -> object:
    (statement,) = parse("CREATE STREAM s (t INT) FROM files OPTIONS (path '/x', format 'json')")
    return define_stream(statement)


def test_other_dead_letters_are_left_alone(tmp_path: Path) -> None:
    late = DeadLetter("late", '{"t":1}', 1, 1)
    capped = DeadLetter("malformed record", None, None, 3)
    assert with_places([late, capped], _json()) == (late, capped)


def test_readable() -> None:
    assert readable(b"a\x00\tb\xff\x1b[0m\xc3\xa9\x7f") == "a\\x00\tb\\xff\\x1b[0mé\\x7f"
