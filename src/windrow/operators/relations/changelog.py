"""The changelog of a table: what rows of a stream change, each at its own point, and the versions that they make.

    T(p) = for every key, the last row with that key at or below the point p, by (point, order of arrival),
           unless it says that the key is gone

A change of a table that a stream feeds has the column FROM: the point from which on it is in effect. Its rows of equal
keys, in the order of FROM, take turns: one goes (COUNT −1), the next comes (COUNT 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.live import ENTER, LEAVE
from windrow.operators.tables.edges import COUNT
from windrow.operators.tables.rows import appended, flat, longs, numbered, taken
from windrow.operators.ticks import NEVER, DueTicks, Points
from windrow.synopses.cells.arrays import Mask
from windrow.types import POINT_MIN

FROM, DELETES = "__from", "__deletes"
"""The point of a row of the stream, or of a change; and whether the row says that its key is gone."""


@dataclass(frozen=True)
class ReadChangelog:
    """What rows of a stream change, and the rows that cannot be taken: a key is NULL, or was deleted before."""

    change: pa.Table
    without_key: pa.Table
    reused: pa.Table


def read_changelog(log: pa.Table, rows: Keyed, gone: Keyed | None) -> ReadChangelog:
    """The change that rows of a stream make of the rows of a table. `log` has FROM, DELETES and the columns of the
    table, in the order in which they take effect. `gone`: the keys that were deleted, and may not come back (None: they
    may)."""
    names = [name for name in log.column_names if name not in (FROM, DELETES)]
    null = np.zeros(log.num_rows, bool)
    for key in rows.keys:
        null |= np.asarray(flat(log.column(key)).is_null())
    without_key, log = taken(log, null), taken(log, ~null)
    ids, _ = numbered([log.column(key) for key in rows.keys], log.num_rows)
    order = np.argsort(ids, kind="stable")
    log, ids = taken(log, order), ids[order]
    held = rows.find([log.column(key) for key in rows.keys], log.num_rows)
    deletes = np.asarray(flat(log.column(DELETES)))
    reused = np.zeros(log.num_rows, bool)
    if gone is not None:
        was_gone = gone.find([log.column(key) for key in rows.keys], log.num_rows) >= 0
        reused = _reused(ids, deletes, held >= 0, was_gone)
    refused, log = taken(log, reused), taken(log, ~reused)
    change = _turns(log, names, ids[~reused], deletes[~reused], held[~reused], rows)
    return ReadChangelog(change, without_key, refused)


def _reused(ids: Points, deletes: Mask, is_held: Mask, was_gone: Mask) -> Mask:
    """Which rows, sorted by key, bring back a key that was deleted before. To delete a key that no row has is
    nothing."""
    at, keys = np.arange(ids.size), int(ids[-1]) + 1 if ids.size else 0
    came = np.full(keys, ids.size)
    np.minimum.at(came, ids[~deletes], at[~deletes])
    came[ids[is_held]] = -1
    went = np.full(keys, ids.size)
    ends = deletes & (at > came[ids])
    np.minimum.at(went, ids[ends], at[ends])
    went[ids[was_gone]] = -1
    return np.asarray(~deletes & (at > went[ids]))


def _turns(log: pa.Table, names: Sequence[str], ids: Points, deletes: Mask, held: Points, rows: Keyed) -> pa.Table:
    """What goes and what comes at every row, sorted by key. Of several rows of a key at one point the last counts."""
    is_first = np.ones(ids.size, bool)
    is_first[1:] = ids[1:] != ids[:-1]
    follows = np.flatnonzero(~is_first & ~np.append(True, deletes[:-1])[: ids.size])
    begins = np.flatnonzero(is_first & (held >= 0))
    comes = np.flatnonzero(~deletes)
    points, plain = longs(log.column(FROM)), log.select(list(names))
    old = rows.take(held[begins], plain.schema).select(list(names))
    changed = pa.concat_tables([taken(plain, follows - 1), old, taken(plain, comes)])
    counts = np.repeat([-1, -1, 1], [follows.size, begins.size, comes.size])
    at = np.concatenate([points[follows], points[begins], points[comes]])
    return netted_change(appended(changed, **{COUNT: counts, FROM: at}).select([COUNT, FROM, *names]))


def netted_change(change: pa.Table) -> pa.Table:
    """Changes, one after another, as one: rows that come and go again cancel."""
    names = [name for name in change.column_names if name != COUNT]
    ids, firsts = numbered([change.column(name) for name in names], change.num_rows)
    counts = np.zeros(firsts.size, np.int64)
    np.add.at(counts, ids, longs(change.column(COUNT)))
    kept = np.flatnonzero(counts)
    rows = taken(change.select(names), firsts[kept])
    return appended(rows, **{COUNT: counts[kept]}).select([COUNT, *names]).combine_chunks()


def whole_change(change: pa.Table) -> pa.Table:
    """A change, whenever its parts take effect."""
    return netted_change(change.drop_columns([FROM])) if FROM in change.column_names else change


def after_change(rows: Keyed, change: pa.Table) -> Keyed:
    """The rows of a table after a change: without those that it removes (COUNT −1), with those that it adds (1)."""
    change = whole_change(change)
    adds = longs(change.column(COUNT)) > 0
    old, new = taken(change, ~adds), taken(change, adds).drop_columns([COUNT])
    return rows.put(new, rows.find([old.column(name) for name in rows.keys], old.num_rows))


def changes_between(log: pa.Table, since: int, upto: int) -> pa.Table:
    """The changes from one point on, up to below another."""
    at = longs(log.column(FROM))
    return taken(log, (at >= since) & (at < upto))


def rows_as_of(rows: pa.Table, log: pa.Table, point: int) -> pa.Table:
    """The rows of a table before the changes from a point on, as a change at that point. `rows` are those after all
    changes of the log."""
    later = taken(log, longs(log.column(FROM)) >= point).drop_columns([FROM])
    names = [name for name in later.column_names if name != COUNT]
    undone = later.set_column(0, COUNT, pa.array(-longs(later.column(COUNT))))
    now = appended(rows.select(names), **{COUNT: np.ones(rows.num_rows, np.int64)}).select([COUNT, *names])
    there = netted_change(pa.concat_tables([now, undone.select([COUNT, *names])]))
    return appended(there, **{FROM: np.full(there.num_rows, point)}).select([COUNT, FROM, *names])


def fed_changes(rows: Callable[[], Keyed], log: pa.Table, since: int | None, due: DueTicks) -> pa.Table:
    """What the due ticks see of a table whose rows after all changes of the log are these. `since`: the point below
    which changes are in effect; None: no row is, so that all come."""
    if since is not None:
        return changes_between(log, since, due.upto)
    now = rows().rows(log.drop_columns([COUNT, FROM]).schema)
    return pa.concat_tables([rows_as_of(now, log, due.before), changes_between(log, due.before, due.upto)])


def versions(rows: pa.Table, log: pa.Table, keys: Sequence[str]) -> pa.Table:
    """All versions of rows, each with the points ENTER ≤ p < LEAVE at which it stands: of rows as they are now, and of
    the changes that made them. The changes of a key are all here, or none."""
    names = rows.column_names
    both = pa.concat_tables([log.select(list(keys)), rows.select(list(keys))])
    every, _ = numbered([both.column(key) for key in keys], both.num_rows)
    ids, now = every[: log.num_rows], every[log.num_rows :]
    points, counts = longs(log.column(FROM)), longs(log.column(COUNT))
    order = np.lexsort((counts, points, ids))
    ids, points, counts = ids[order], points[order], counts[order]
    is_first, is_last = np.ones(ids.size, bool), np.ones(ids.size, bool)
    is_first[1:] = ids[1:] != ids[:-1]
    is_last[:-1] = is_first[1:]
    comes, went = counts > 0, is_first & (counts < 0)
    until = np.where(is_last, NEVER, np.append(points[1:], NEVER)[: ids.size])
    still = ~np.isin(now, ids)
    changed = log.select(names)
    found = pa.concat_tables([taken(changed, order[comes]), taken(changed, order[went]), taken(rows, still)])
    enter = np.concatenate([points[comes], np.full(int(went.sum()) + int(still.sum()), POINT_MIN)])
    leave = np.concatenate([until[comes], points[went], np.full(int(still.sum()), NEVER)])
    return appended(found, **{ENTER: enter, LEAVE: leave})
