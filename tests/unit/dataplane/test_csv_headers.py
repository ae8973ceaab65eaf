"""The header of a CSV file, from its first bytes."""

from __future__ import annotations

import pytest

from windrow.dataplane.sources.columns.csv_headers import parse_header


@pytest.mark.parametrize(
    ("head", "options", "names"),
    [
        (b"a,b\n1,2\n", {}, ("a", "b")),
        (b"\xef\xbb\xbfa, b \r\n1,2\r\n", {}, ("a", "b")),
        (b"\n\n# c\na;b\n1;2", {"sep": ";", "comment": "#"}, ("a", "b")),
        (b"a\tb\n1\t2\n", {"delimiter": "\\t"}, ("a", "b")),
        (b"a||b\n1||2\n", {"sep": "||"}, ("a", "b")),
        (b'"a,""x","b\\"c"\n1,2\n', {"escape": '"'}, ('a,"x', 'b\\c"')),
        (b"'a,b',c\n1,2\n", {"quote": "'"}, ("a,b", "c")),
        (b'"a\nb",c\n1,2\n', {"multiline": "true"}, ("a\nb", "c")),
        ("a,ü\n1,2\n".encode("latin-1"), {"encoding": "ISO-8859-1"}, ("a", "ü")),
        (b"a,b;1,2", {"linesep": ";"}, ("a", "b")),
        (b",b\n1,2\n", {}, ("", "b")),
    ],
)
def test_names(head: bytes, options: dict[str, str], names: tuple[str, ...]) -> None:
    assert parse_header(head, options, is_whole=True) == names


@pytest.mark.parametrize("head", [b"", b"\n\n", b"a,b", b"a,b\n", b"a,b\n  \n"])
def test_a_file_without_records(head: bytes) -> None:
    assert parse_header(head, {}, is_whole=True) == ()


def test_a_header_longer_than_the_head() -> None:
    assert parse_header(b"a,b,c", {}, is_whole=False) is None
