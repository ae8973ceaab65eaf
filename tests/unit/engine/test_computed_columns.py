"""Columns that a one-time query computes of kept ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from windrow.dataplane.stores import KeptColumn, WindowSource
from windrow.engine.ask.onetime.reading import WindowWish, window_source
from windrow.engine.kept.store_entries import StoreReader, WindowStore
from windrow.engine.kept.window_stores import WindowStores
from windrow.operators.tables.kernel import Kernel
from windrow.types import SqlType

DOUBLED = KeptColumn("v * 2 > 0", SqlType("BOOLEAN"))


def source(name: str, kind: str, kernel: Kernel) -> WindowSource:
    """Where the condition is computed for a stream whose column has this type."""
    column = KeptColumn("v", SqlType(kind))
    reader = StoreReader("retain", 1, (column,), None, None, None)
    store = WindowStore(1, name, "t", (), {column: None}, {None: None}, None, (reader,))
    wish = WindowWish(cast(Any, SimpleNamespace(name=name)), "t", (column,), DOUBLED, 10, name)
    found = window_source(cast(WindowStores, SimpleNamespace(stores=[store])), wish, kernel)
    assert isinstance(found, WindowSource)
    return found


def test_sql_depends_on_the_types_of_columns() -> None:
    kernel = Kernel()
    tree = {kind: source(kind, kind, kernel).trees[DOUBLED] for kind in ("BIGINT", "INT")}
    types = {kind: {"v": SqlType(kind)} for kind in tree}
    sql = {kind: kernel.final(tree[kind], types[kind]).sql for kind in tree}
    assert sql == {kind: Kernel().final(tree[kind], types[kind]).sql for kind in tree}
    assert sql["BIGINT"] != sql["INT"]


def test_same_types_share_a_tree() -> None:
    kernel = Kernel()
    assert source("a", "INT", kernel).trees[DOUBLED] is source("b", "INT", kernel).trees[DOUBLED]
