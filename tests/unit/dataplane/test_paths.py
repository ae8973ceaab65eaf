"""The option `path` of files: absolute texts, lists, and the one text that Spark reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.dataplane.sources.columns.inference import format_of
from windrow.dataplane.sources.paths import escaped, literal, paths_of, resolve, resolved, spark_path
from windrow.errors import SourceError


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve("in/") == f"{tmp_path}/in"
    assert resolve("in/../out/*.json") == f"{tmp_path}/out/*.json"


def test_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/in") == f"{tmp_path}/in"


def test_special_characters_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a[1]").mkdir()
    monkeypatch.chdir(tmp_path / "a[1]")
    assert resolve("*.json") == f"{tmp_path}/a\\[1\\]/*.json"


def test_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "x{1,2}").touch()
    path = resolve(f"{tmp_path}/x{{1,2}}")
    assert path == f"{tmp_path}/x\\{{1,2\\}}"
    assert resolve(path) == path, "what is kept means the same again"
    assert literal(path) == f"{tmp_path}/x{{1,2}}"
    assert literal(f"{tmp_path}/x*") is None


def test_file_urls_and_remote_paths(tmp_path: Path) -> None:
    assert resolve(f"file://{tmp_path}") == str(tmp_path)
    assert resolve("s3a://bucket/../x") == "s3a://bucket/../x"


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
def test_no_path(path: str) -> None:
    with pytest.raises(SourceError):
        resolve(path)


def test_list_keeps_its_place_and_loses_duplicates(tmp_path: Path) -> None:
    options = (("format", "json"), ("path", str(tmp_path)), ("path", f"{tmp_path}/."), ("path", "/b"), ("header", "x"))
    assert resolved(options) == (("format", "json"), ("path", str(tmp_path)), ("path", "/b"), ("header", "x"))
    assert paths_of(resolved(options)) == (str(tmp_path), "/b")


def test_text_for_spark(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    assert spark_path([str(tmp_path)]) == str(tmp_path)
    assert spark_path([f"{tmp_path}/a.json"]) == f"{tmp_path}/a\\.json"
    (tmp_path / "a,b").touch()
    assert spark_path([f"{tmp_path}/a,b"]) == f"{tmp_path}/{{a\\,b}}"
    assert spark_path(["/d/a,b", "/e"]) == "/{d/a\\,b,e}"
    assert spark_path([escaped("/d/{x}"), "/e"]) == "/{d/\\\\\\{x\\\\\\},e}"
    assert spark_path(["s3a://b/x", "s3a://b/y"]) == "s3a://b/{x,y}"


def test_format_of_names() -> None:
    assert format_of(["/a/x.jsonl", "/a/y.json.gz"]) == (("format", "json"),)
    assert format_of(["/a.b/part-0.c000.snappy.parquet"]) == (("format", "parquet"),)
    assert format_of(["x.TSV"]) == (("format", "csv"), ("sep", "\t"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.json", "b.csv"], "several formats: a.json, b.csv"),
        (["a.csv", "b.tsv"], "several formats"),
        (["a.log"], "a.log does not show"),
        ([], "no file yet"),
    ],
)
def test_format_that_names_do_not_show(names: list[str], message: str) -> None:
    with pytest.raises(SourceError, match=message) as error:
        format_of(names)
    assert error.value.remedy
