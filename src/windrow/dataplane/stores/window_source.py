"""How the tuples of a window are read of a store: by kept columns, and by columns that are computed of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.dataplane.stores.files import POINT
from windrow.dataplane.stores.pinned import PinnedFiles
from windrow.dataplane.stores.reading import Selected
from windrow.dataplane.stores.specs import KeptColumn
from windrow.operators.tables.kernel import Kernel


@dataclass(frozen=True)
class WindowSource:
    """A store that has a window: the columns that are read of it, and the trees of those that are computed, over plain
    columns. `kept_if`: a condition that the store keeps; `test`: one that is computed. Rows below `since` may be
    missing (None: none are)."""

    store: int
    columns: tuple[KeptColumn, ...]
    read: tuple[KeptColumn, ...]
    trees: Mapping[KeptColumn, exp.Expr] = field(default_factory=dict)
    plain: Mapping[str, KeptColumn] = field(default_factory=dict)
    kept_if: KeptColumn | None = None
    test: KeptColumn | None = None
    since: int | None = None

    def rows(self, files: PinnedFiles, lo: int, hi: int, kernel: Kernel) -> pa.Table:
        """The tuples of the window with lo ≤ point < hi: POINT, then its columns, named by their ids."""
        return self.computed(files.rows(self.read, self.selected(lo, hi)), kernel)

    def selected(self, lo: int, hi: int) -> Selected:
        """Which rows of files are of the window with lo ≤ point < hi. Below `since` some are missing, or lack columns,
        so that none counts."""
        return Selected(lo if self.since is None else max(lo, self.since), hi, self.kept_if)

    def computed(self, rows: pa.Table, kernel: Kernel) -> pa.Table:
        """Rows as they were read, with what is computed, for which the condition is true."""
        if self.trees:
            types = {name: one.type for name, one in self.plain.items()}
            values = rows.select([POINT, *(one.id for one in self.plain.values())])
            values = values.rename_columns([POINT, *self.plain])
            made = kernel.evaluate(list(self.trees.values()), types, values)
            for column, found in zip(self.trees, made, strict=True):
                kind = column.type.arrow
                rows = rows.append_column(column.id, found if found.type == kind else found.cast(kind))
        if self.test is not None:
            rows = rows.filter(pc.fill_null(rows.column(self.test.id), False))
        return rows.select([POINT, *(one.id for one in self.columns)])
