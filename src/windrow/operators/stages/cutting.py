"""Cuts a plan into stages: which rows must be in one place, and where they have to be exchanged.

An operator that compares rows needs those that it compares in one place: an inner, semi- or outer join its inputs by
the join keys, a group-by by (some of) its keys, DISTINCT, set operations, ISTREAM and DSTREAM by (some of) their
columns, a count-based window by (some of) the columns that partition it; LIMIT, an ungrouped aggregate, a join without
keys and a count-based window without partitions, or on a sub-query, need all rows in one place. Rows are placed by the
hash of columns, into the buckets that all stores and stages have. A window is read from a store that is bucketed so
already; where the rows of another operator are not in their places, an exchange between two stages takes them there. A
stage is what a task can do without rows of other tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from sqlglot import exp

from windrow.operators.group_by import CELLS
from windrow.operators.negation.rows_window import COUNTED
from windrow.operators.negation.set_operation import LEAVING
from windrow.operators.scan import window_of
from windrow.operators.state import OUTPUT, ROOT, has_ends, is_direct, is_strict, reads_live_rows
from windrow.operators.strategies.direct_distinct import CAME
from windrow.operators.strict.distinct import LIVE
from windrow.operators.strict.group_by import ROWS
from windrow.operators.tables.memo import by_identity
from windrow.operators.ticks import Points
from windrow.operators.top_rows import SHOWN
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Expiring,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    PlanColumn,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    Streaming,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    Window,
    WindowExpiry,
    walk,
)
from windrow.plan.algebra.rewriting import is_of_window
from windrow.synopses.cells.buckets import BUCKETS, buckets_of

Names = tuple[str, ...]
Spread = tuple[frozenset[str], ...] | None
"""Where rows are: by the hash of keys, each a set of columns with equal values; (): all in bucket 0; None: anywhere."""


@dataclass(frozen=True)
class Stage:
    """The nodes from `node` at `path` down to windows and to the exchanges at the paths `inputs`.

    `windows` are the numbers of the windows that it reads, `first` that of the first window below its node. `single`:
    all its rows are in bucket 0. `sends_by`: the columns by which its output is exchanged, () into bucket 0; None: it
    is the last one, which reports the plan's changes. `level` is above that of its inputs. `at_instants`: RESTORE above
    it asks for its output at every instant, not only at ticks.
    """

    path: str
    node: Node
    inputs: Names
    windows: tuple[int, ...]
    first: int
    single: bool
    sends_by: Names | None
    level: int
    at_instants: bool = False


@dataclass(frozen=True)
class StagedPlan:
    """The stages of a plan.

    `window_keys`: by window, the columns that its store is bucketed by; (): it is read in one place; None: anywhere.
    `tables`: by path of state, the stage that has it. `cuts`: by path of state, the columns that say in which bucket a
    row belongs; () for bucket 0, None: it may be anywhere. `scans`: by path, the columns by which tasks share the rows
    of a table; None: every task reads all of them. `shown_by`: the same for the output, as positions.
    """

    stages: tuple[Stage, ...]
    window_keys: tuple[Names | None, ...]
    tables: Mapping[str, Stage]
    cuts: Mapping[str, Names | None]
    scans: Mapping[str, Names | None]
    shown_by: tuple[int, ...] | None

    @property
    def levels(self) -> int:
        return self.stages[-1].level + 1

    @property
    def is_single(self) -> bool:
        """Whether one task must do all the work."""
        return all(stage.single for stage in self.stages)

    def at(self, level: int) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.level == level)


def stage_of(cut: StagedPlan, path: str) -> Stage:
    """The stage that processes the node at a path."""
    exchanges = {stage.path: stage for stage in cut.stages if stage.sends_by is not None}
    owner = _owner(path, exchanges)
    return exchanges[owner] if owner else cut.stages[-1]


def buckets_in(rows: pa.Table, names: Names | None, within: tuple[int, int] = (0, BUCKETS)) -> Points:
    """The bucket of each row by these columns. None: they may be anywhere, and are spread `within` a range."""
    if names is None:
        return np.arange(rows.num_rows) % (within[1] - within[0]) + within[0]
    keys = [rows.column(name).combine_chunks() for name in names]
    return buckets_of(keys, np.zeros(rows.num_rows, bool), BUCKETS)


@by_identity
def staged(plan: ContinuousPlan) -> StagedPlan:
    """The stages of a plan, each after those that it reads."""
    cutter = _Cutter()
    every = _hashable(plan.schema)
    if is_strict(plan.root):  # what cancels at a tick must meet
        found = cutter.together(plan.root, ROOT, plan.schema, every)
    else:
        found = cutter.spread(plan.root, ROOT, None)
    cutter.keep(OUTPUT, "", found, plan.schema)
    cutter.spreads[""] = found
    stages = _stages(plan, cutter)
    by_path = {stage.path if stage.sends_by is not None else "": stage for stage in stages}
    tables = {path: by_path[_owner(owner, cutter.exchanges)] for path, owner in cutter.owners.items()}
    names = [column.sql for column in plan.schema]
    by = cutter.cuts[OUTPUT]
    shown = None if by is None else tuple(names.index(name) for name in by)
    return StagedPlan(stages, tuple(cutter.windows), tables, cutter.cuts, cutter.scans, shown)


def _owner(path: str, exchanges: Collection[str]) -> str:
    """The innermost exchange at or above a path; '' if there is none."""
    above = [one for one in exchanges if path == one or path.startswith(one + ".")]
    return max(above, key=len, default="")


@dataclass
class _Cutter:
    """Gathers what the walk over a plan finds. Windows are met from left to right."""

    windows: list[Names | None] = field(default_factory=list)
    exchanges: dict[str, Names] = field(default_factory=dict)
    spreads: dict[str, Spread] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, Names | None] = field(default_factory=dict)
    scans: dict[str, Names | None] = field(default_factory=dict)

    def keep(self, table: str, owner: str, found: Spread, schema: tuple[PlanColumn, ...]) -> None:
        """Note where the rows of a state table are."""
        names = {column.sql for column in schema}
        self.owners[table] = owner
        self.cuts[table] = None if found is None else tuple(min(key & names) for key in found)

    # -- needs ---------------------------------------------------------------------------------

    def exactly(self, node: Node, path: str, names: Names) -> None:
        """Place rows by these columns, in this order; () in one place."""
        found = self.spread(node, path, names)
        is_met = found is not None and len(found) == len(names)
        if not is_met or any(name not in key for name, key in zip(names, found or (), strict=True)):
            self.exchange(path, found, names)

    def together(self, node: Node, path: str, columns: tuple[PlanColumn, ...], hint: Names) -> Spread:
        """Place rows with equal values in these columns together, by `hint` if they are not."""
        found, names = self.spread(node, path, hint), {column.sql for column in columns}
        if found is not None and all(key & names for key in found):
            return found
        return self.exchange(path, found, hint)

    def exchange(self, path: str, found: Spread, names: Names) -> Spread:
        self.exchanges[path], self.spreads[path] = names, found
        return tuple(frozenset([name]) for name in names)

    # -- where rows are ------------------------------------------------------------------------

    def spread(self, node: Node, path: str, hint: Names | None) -> Spread:
        """Where the output of a node is. `hint` are the columns by which its reader would like it."""
        if isinstance(node, StreamWindow):
            self.windows.append(hint)
            return None if hint is None else tuple(frozenset([name]) for name in hint)
        if isinstance(node, TableScan):
            names = _hashable(node.schema) if hint is None else hint
            self.scans[path] = names
            return tuple(frozenset([name]) for name in names)
        if isinstance(node, NrrJoin):
            return self._nrr_join(node, path, hint)
        if isinstance(node, Filter):
            return self.spread(node.input, f"{path}.0", hint)
        if isinstance(node, Project):
            return self._project(node, path, hint)
        if isinstance(node, MergeUnion):
            return self._union(node, path, hint)
        if isinstance(node, Join | SemiJoin | OuterJoin):
            return self._join(node, path, hint)
        if isinstance(node, SetOperation):
            return self._set_operation(node, path, hint)
        if isinstance(node, GroupBy):
            return self._group_by(node, path, hint)
        if isinstance(node, TopRows):
            self.exactly(node.input, f"{path}.0", ())
            found: Spread = ()
            self.keep(path + SHOWN, path, found, node.schema)
        elif isinstance(node, RowsWindow):
            found = self._rows_window(node, hint)
            self.keep(path + COUNTED, path, found, node.partition)
        elif isinstance(node, OutputRows):
            self.exactly(node.input, f"{path}.0", ())
            found = ()
            self.keep(path + COUNTED, path, found, ())
        elif isinstance(node, OutputWindow | WindowExpiry):
            found = self.spread(node.input, f"{path}.0", hint)
            if isinstance(node, WindowExpiry) and node.how is Expiring.DIRECT:
                return found
        else:
            found = self._by_value(node, path, hint)
        self.keep(path, path, found, node.schema)
        if isinstance(node, Distinct) and is_strict(node) and has_ends(node.input):
            self.keep(path + LIVE, path, found, node.schema)
        elif isinstance(node, Distinct) and is_direct(node):
            self.keep(path + CAME, path, found, node.schema)
        return found

    def _by_value(self, node: Distinct | ToStream, path: str, hint: Names | None) -> Spread:
        """Equal rows together; RSTREAM without RESTORE compares nothing."""
        compares = not isinstance(node, ToStream) or node.kind is not Streaming.RSTREAM or node.restores
        if not compares and not is_strict(node.input):
            return self.spread(node.input, f"{path}.0", hint)
        return self.together(node.input, f"{path}.0", node.schema, hint or _hashable(node.schema))

    def _rows_window(self, node: RowsWindow, hint: Names | None) -> Spread:
        """A window's store is bucketed by columns that partition it."""
        keys = _hashable(node.partition)
        wished = tuple(name for name in keys if hint and name in hint)
        self.windows.append(wished or keys)
        return tuple(frozenset([name]) for name in wished or keys)

    def _project(self, node: Project, path: str, hint: Names | None) -> Spread:
        below = {one.column.sql: one.expression.name for one in node.columns if one.is_renamed}
        if hint:
            hint = tuple(below[name] for name in hint) if all(name in below for name in hint) else None
        found = self.spread(node.input, f"{path}.0", hint)
        if not found:
            return found
        keys = [frozenset(name for name, old in below.items() if old in key) for key in found]
        return tuple(keys) if all(keys) else None

    def _union(self, node: MergeUnion, path: str, hint: Names | None) -> Spread:
        names, found = [column.sql for column in node.columns], list[Spread]()
        for i, one in enumerate(node.inputs):
            inner = tuple(one.schema[names.index(name)].sql for name in hint) if hint else hint
            found.append(self.spread(one, f"{path}.{i}", inner))
        if any(one == () for one in found):
            for i, one_found in enumerate(found):
                if one_found != ():
                    self.exchange(f"{path}.{i}", one_found, ())
            return ()
        places = [_places(one, spread) for one, spread in zip(node.inputs, found, strict=True)]
        first = places[0]
        if first is None or any(one is None or len(one) != len(first) for one in places):
            return None
        common = [frozenset.intersection(*(one[k] for one in places if one is not None)) for k in range(len(first))]
        return tuple(frozenset(names[at] for at in key) for key in common) if all(common) else None

    def _set_operation(self, node: SetOperation, path: str, hint: Names | None) -> Spread:
        """Equal rows of both inputs together."""
        names, keys = [column.sql for column in node.columns], _hashable(node.columns)
        wished = tuple(name for name in keys if hint and name in hint)
        chosen = wished or keys
        for i, one in enumerate(node.inputs):
            inner = tuple(one.schema[names.index(name)].sql for name in chosen)
            self.exactly(one, f"{path}.{i}", inner)
        found = tuple(frozenset([name]) for name in chosen)
        for table in (path, path + LEAVING):
            self.keep(table, path, found, node.schema)
        return found

    def _join(self, node: Join | SemiJoin | OuterJoin, path: str, hint: Names | None) -> Spread:
        usable = [k for k in range(len(node.keys)) if _is_usable(node, k)]
        wished = [k for k in usable if hint and any(key.name in hint for key in node.keys[k])]
        chosen = wished or usable
        for i, one in enumerate(node.inputs):
            names = tuple(node.keys[k][i].name for k in chosen)
            self.exactly(one, f"{path}.{i}", names)
            is_reused = isinstance(node, Join) and i in node.reused
            if is_reused and f"{path}.{i}" in self.exchanges:
                raise ValueError("a join whose rows are exchanged cannot read the state of a DISTINCT below")
            if window_of(one) is None and not is_reused:
                self.owners[f"{path}.{i}/old"], self.cuts[f"{path}.{i}/old"] = path, names
        if isinstance(node, Join):
            return tuple(frozenset(key.name for key in node.keys[k]) for k in chosen)
        if isinstance(node, OuterJoin) and node.keeps_left and node.keeps_right and chosen:
            return None  # a row without a match is where its own key is, and the other is NULL
        side = 1 if isinstance(node, OuterJoin) and node.keeps_right else 0
        return tuple(frozenset([node.keys[k][side].name]) for k in chosen)

    def _nrr_join(self, node: NrrJoin, path: str, hint: Names | None) -> Spread:
        """Every task reads all of the table, so the input may be anywhere."""
        own = {column.sql for column in node.input.schema}
        below, table = f"{path}.1", node.table
        while isinstance(table, Filter | Project):
            below, table = f"{below}.0", table.input
        self.scans[below] = None
        return self.spread(node.input, f"{path}.0", hint if hint is not None and own.issuperset(hint) else None)

    def _group_by(self, node: GroupBy, path: str, hint: Names | None) -> Spread:
        keys = _hashable(node.keys)
        wished = tuple(name for name in keys if hint and name in hint)
        if keys:
            found = self.together(node.input, f"{path}.0", node.keys, wished or keys)
        else:
            self.exactly(node.input, f"{path}.0", ())
            found = ()
        assert found is not None
        own = {key.sql for key in node.keys}
        found = tuple(key & own for key in found)
        self.keep(path, path, found, node.keys)
        if reads_live_rows(node):
            self.keep(path + ROWS, path, found, node.keys)
        else:
            self.owners[path + CELLS], self.cuts[path + CELLS] = path, ()  # a cell goes where its group is
        return found


def _places(node: Node, found: Spread) -> list[frozenset[int]] | None:
    """The positions of the columns of each key."""
    if found is None:
        return None
    return [frozenset(at for at, column in enumerate(node.schema) if column.sql in key) for key in found]


def _is_usable(node: Join | SemiJoin | OuterJoin, k: int) -> bool:
    """Whether rows can be placed by the k-th key: it is a column of every input, and of a window if the join reads the
    window's store, which cannot be exchanged."""
    for one, key in zip(node.inputs, node.keys[k], strict=True):
        column = next((c for c in one.schema if isinstance(key, exp.Column) and c.sql == key.name), None)
        if column is None or not _hashable((column,)):
            return False
        if window_of(one) is not None and not is_of_window(one, column.sql):
            return False
    return True


def _hashable(columns: tuple[PlanColumn, ...]) -> Names:
    """The columns that rows can be placed by."""
    return tuple(column.sql for column in columns if not pa.types.is_nested(column.type.arrow))


# -- stages ----------------------------------------------------------------------------------------


def _stages(plan: ContinuousPlan, cutter: _Cutter) -> tuple[Stage, ...]:
    """A stage per exchange, and the last one."""
    nodes = dict(_paths(plan.root, ROOT))
    windows = [path for path, node in nodes.items() if isinstance(node, Window)]
    made: dict[str, Stage] = {}
    for path in [*sorted(cutter.exchanges, key=len, reverse=True), ""]:
        at = path or ROOT
        inputs = tuple(one for one in cutter.exchanges if _reads(one, path, cutter.exchanges))
        own = tuple(i for i, one in enumerate(windows) if _owner(one, cutter.exchanges) == path)
        below = [i for i, one in enumerate(windows) if one == at or one.startswith(at + ".")]
        level = 1 + max((made[one].level for one in inputs), default=-1)
        sends_by = cutter.exchanges[path] if path else None
        single, instants = cutter.spreads[path] == (), is_at_instants(plan.root, at)
        first = below[0] if below else 0  # a stage may read tables alone
        made[path] = Stage(at, nodes[at], inputs, own, first, single, sends_by, level, instants)
    return tuple(sorted(made.values(), key=lambda stage: (stage.level, stage.sends_by is None)))


def _reads(exchange: str, stage: str, exchanges: Mapping[str, Names]) -> bool:
    """Whether an exchange is an input of the stage, with none between."""
    if exchange == stage:
        return False
    parent = _owner(exchange.rpartition(".")[0], exchanges) if "." in exchange else ""
    return parent == stage


def _paths(node: Node, path: str) -> list[tuple[str, Node]]:
    """The nodes by path, inputs first, from left to right."""
    found = [pair for i, one in enumerate(node.inputs) for pair in _paths(one, f"{path}.{i}")]
    return [*found, (path, node)]


def is_at_instants(root: Node, path: str) -> bool:
    """Whether RESTORE asks for the output of the node at a path at every instant: the nearest stream above it does."""
    node, found = root, False
    for i in path.split(".")[1:]:
        found = node.restores if isinstance(node, ToStream) else found
        node = node.inputs[int(i)]
    return found


def node_at(root: Node, path: str) -> Node:
    """The node at a path."""
    return dict(_paths(root, ROOT))[path]


def windows_below(node: Node) -> int:
    """The number of windows below a node."""
    return sum(isinstance(one, Window) for one in walk(node))
