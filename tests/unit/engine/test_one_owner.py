"""Only `StreamState.install` replaces progress, and only the store has SQL."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import windrow
from windrow.engine.progress import QueryProgress, StreamProgress, SynopsisProgress

ENGINE = Path(windrow.__file__).parent / "engine"
COMMITTED = {f.name for kind in (StreamProgress, SynopsisProgress, QueryProgress) for f in fields(kind)}
OWNERS = {
    "progress": {"state.py"},
    "unpublished": {"state.py"},
    "queries": {"queries/query_manager.py"},
    "synopses": {"queries/query_manager.py"},
}
"""Fields of `StreamState`, its synopses and queries, and the files that may assign them."""

SQL = ("SELECT ", "INSERT ", "UPDATE ", "DELETE FROM ")
STORES = ("store/", "kept/store_entries.py", "plans/commits.py", "tables/commits.py", "tables/evaluating.py")
"""Where SQL is: the commits of streams, of window stores, of continuous queries and of tables; and what evaluates the
expressions of statements over tables."""


def trees(within: Path = ENGINE) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(within.rglob("*.py")):
        yield path.relative_to(ENGINE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def assigned(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The assigned attributes of objects other than `self`, as a whole or by an item."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [t for target in node.targets for t in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            while isinstance(target, ast.Subscript):
                target = target.value
            is_mine = isinstance(target, ast.Attribute) and getattr(target.value, "id", None) == "self"
            if isinstance(target, ast.Attribute) and not is_mine:
                yield target.lineno, target.attr


def test_only_owners_assign_committed_fields() -> None:
    guarded = COMMITTED | set(OWNERS)
    breaches = [
        f"{file}:{line}: {name}"
        for file, tree in trees()
        for line, name in assigned(tree)
        if name in guarded and file not in OWNERS.get(name, ())
    ]
    assert not breaches


def test_assignments_in_every_form_are_found() -> None:
    text = "stream.ticked[axis] = 1\nstream.least, x = {}, 1\nquery.tick_seq += 1\nself.progress = 1\n"
    assert [name for _, name in assigned(ast.parse(text))] == ["ticked", "least", "tick_seq"]


def test_engine_sql_is_in_the_store() -> None:
    breaches = [
        f"{file}:{node.lineno}"
        for file, tree in trees()
        if not file.startswith(STORES)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(SQL)
    ]
    assert not breaches
