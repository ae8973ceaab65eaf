"""Many grouping sets in one group-by: each row is copied once per set, into slots that all sets share.

Spark's GROUPING SETS take at most 64 columns, and each set adds columns of its own. Packed, the group-by is as wide as
its widest set: the i-th key of a type, and the argument of the i-th aggregate of a kind, have one slot in all sets. So
a row of a set computes only that set's aggregates, and the input is decoded once.

Measured on two busy cores, 20,000 rows, 200 sets over 100 expressions: a CASE per slot takes 29 s (its code is too
long for the JIT compiler), a projection per set (UNPIVOT) 42 s, an array of structs 15 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from windrow.dataplane.ingest.grouping import Grouping
from windrow.dataplane.kernels import CellColumns
from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.cells.cells import partial_sql
from windrow.types import SqlType

_PANE, _QUALIFIES = "__pane", "__q"
_BOOLEAN = SqlType("BOOLEAN")


@dataclass(frozen=True)
class Packing:
    """Which slots each grouping uses. `cells`: the columns of its results; `arguments`: what it aggregates, by slot.
    `keys` and `values`: the Spark types of the slots; `aggregates`: (result, Spark aggregate of a slot)."""

    cells: tuple[CellColumns, ...]
    arguments: tuple[dict[str, str], ...]
    keys: dict[str, str]
    values: dict[str, str]
    aggregates: tuple[tuple[str, str], ...]


def packing_of(groupings: Sequence[Grouping]) -> Packing:
    """The slots of these groupings, in the order in which they first need them."""
    keys = {_PANE: "BIGINT", _QUALIFIES: "BOOLEAN"}
    values: dict[str, str] = {}
    aggregates: dict[str, str] = {}
    cells, arguments = [], []
    for g, grouping in enumerate(groupings):
        used: Counter[object] = Counter()
        mine = []
        for key in grouping.keys:
            mine.append(f"__key_{_identifier(key.type)}_{used[key.type]}")
            keys[mine[-1]] = key.type.name
            used[key.type] += 1
        partials, filled = [], {}
        for original, (_, a) in zip(grouping.accumulators, grouping.partials(g), strict=True):
            kept = _BOOLEAN if a.type is None or a.kind is Kind.COUNT else a.type
            slot = f"__{a.kind.name.lower()}_{_identifier(kept)}_{used[a.kind, kept]}"
            used[a.kind, kept] += 1
            values[slot], filled[slot] = kept.name, _argument(grouping.bounded_accumulator(a))
            results = {f"p{slot}_{i}": sql for i, sql in enumerate(partial_sql(Accumulator(a.kind, slot, kept, None)))}
            aggregates |= results
            partials.append((original, tuple(results)))
        qualifies = None if grouping.qualifies is None else _QUALIFIES
        cells.append(CellColumns(g, _PANE, qualifies, tuple(mine), tuple(partials)))
        arguments.append(filled)
    return Packing(tuple(cells), tuple(arguments), keys, values, tuple(aggregates.items()))


def copies(rows: DataFrame, sets: Sequence[Mapping[str, str]], types: Mapping[str, str]) -> DataFrame:
    """A copy of each row for each set, with its number as `__set` and its expressions in their slots.

    `types`: of all slots; one that a set does not fill is NULL.
    """
    names: dict[str, str] = {}
    for filled in sets:
        for sql in filled.values():
            names.setdefault(sql, f"__e{len(names)}")
    structs = []
    for number, filled in enumerate(sets):
        fields = [f"CAST({names[filled[s]] if s in filled else 'NULL'} AS {t}) AS {s}" for s, t in types.items()]
        structs.append(f"struct({number}L AS __set, {', '.join(fields)})")
    # The filter keeps everything: Spark generates no code for it, hence none for the array, which would exceed the
    # 64 KB of a Java method and be compiled in vain for every micro-batch.
    made = f"inline(filter(array({', '.join(structs)}), one -> true))"
    return rows.selectExpr("*", *(f"{sql} AS {name}" for sql, name in names.items())).selectExpr("*", made)


def _argument(a: Accumulator) -> str:
    """What an accumulator takes of a row; NULL where the row does not count."""
    if a.kind is Kind.COUNT:
        taken = "true" if a.arg is None else f"CASE WHEN ({a.arg}) IS NOT NULL THEN true END"
    else:
        assert a.arg is not None
        taken = a.arg
    # CASE, unlike AND, evaluates nothing of a row whose condition is NULL.
    return taken if a.condition is None else f"CASE WHEN ({a.condition}) THEN {taken} END"


def _identifier(kind: SqlType) -> str:
    return "".join(c if c.isalnum() else "_" for c in kind.name)
