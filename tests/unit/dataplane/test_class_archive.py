"""The archive of Spark's classes: when a JVM is told to use it, and what happens if it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.dataplane import class_archive
from windrow.dataplane.class_archive import archive_options, write_archive
from windrow.errors import SessionError


def test_no_archive(tmp_path: Path) -> None:
    assert archive_options("", tmp_path / "classes.jsa") == ""


def test_archive(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.touch()
    assert archive_options("-Xmx1g", archive).startswith(f"-XX:SharedArchiveFile={archive} ")
    assert archive_options("-XX:SharedArchiveFile=mine.jsa", archive) == ""
    assert archive_options("-XX:ArchiveClassesAtExit=mine.jsa", archive) == ""


def test_path_with_a_space(tmp_path: Path) -> None:
    archive = tmp_path / "my classes.jsa"
    archive.touch()
    assert archive_options("", archive) == ""


def test_program_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "SCRIPT", "raise SystemExit('no Java here')")
    archive = tmp_path / "share" / "classes.jsa"
    with pytest.raises(SessionError, match="was not written: no Java here"):
        write_archive(archive)
    assert list(archive.parent.iterdir()) == []


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "share").touch()
    with pytest.raises(SessionError, match="cannot be written"):
        write_archive(tmp_path / "share" / "classes.jsa")
