"""Merging panes of a chunk: for any accumulators, in any order, the result is that of merging their own cells."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells, Chunk, build_chunks, strands_of
from windrow.types import SqlType

INT = SqlType("INT")
SUMS = [Accumulator(Kind.SUM_LONG, column, SqlType("BIGINT"), None) for column in "abcd"]
EXTREMES = [Accumulator(kind, column, INT, None) for kind in (Kind.LEAST, Kind.GREATEST) for column in "ab"]
COUNTS = [Accumulator(Kind.COUNT, None, None, condition) for condition in (None, "a > 0", "b > 0")]
STORED = [*SUMS, *EXTREMES, *COUNTS]
ABSENT = [Accumulator(Kind.SUM_LONG, "z", SqlType("BIGINT"), None), Accumulator(Kind.COUNT, None, None, "z > 0")]
PANES, GROUPS = 6, 5


def chunk_of(seed: int, fill: float) -> tuple[Chunk, Cells]:
    rng = np.random.default_rng(seed)
    at = np.flatnonzero(rng.random(PANES * GROUPS) < fill) if fill < 1 else np.arange(PANES * GROUPS)
    at = at if at.size else np.array([0])
    states = {a: tuple(rng.integers(0, 9, at.size).astype(d) for d in fold_of(a).dtypes) for a in STORED}
    states[COUNTS[2]] = states[COUNTS[1]]
    cells = Cells(at // GROUPS * 10, at % GROUPS + 1, states)
    (chunk,) = build_chunks(cells)
    return chunk, cells


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    fill=st.sampled_from([0.1, 0.6, 1.0]),
    asked=st.lists(st.sampled_from([*STORED, *ABSENT]), min_size=1, unique=True),
    cut=st.tuples(st.integers(0, PANES - 1), st.integers(1, PANES)),
    is_narrow=st.booleans(),
)
def test_merged_panes(seed: int, fill: float, asked: list[Accumulator], cut: tuple[int, int], is_narrow: bool) -> None:
    chunk, cells = chunk_of(seed, fill)
    if is_narrow and chunk.is_dense:
        chunk.narrow()
    lo, hi = min(cut[0], chunk.panes.size - 1), min(max(cut), chunk.panes.size)
    lo, hi = (lo, hi) if lo < hi else (0, chunk.panes.size)
    strands = strands_of(asked)
    merged = [strand.identity(GROUPS + 1) for strand in strands]
    chunk.view(strands).merge_into(merged, lo, hi)
    inside = (cells.panes >= chunk.panes[lo]) & (cells.panes <= chunk.panes[hi - 1])
    for strand, state in zip(strands, merged, strict=True):
        for i, a in enumerate(strand.members):
            expected = strand.fold.identity(GROUPS + 1)
            if a in cells.states:
                some = [column[inside] for column in cells.states[a]]
                strand.fold.scatter_into(expected, cells.groups[inside], some)
            for column, right in zip(state, expected, strict=True):
                assert column[i].tolist() == right.tolist(), (a, lo, hi)


def test_members_of_one_strand_are_not_copied() -> None:
    chunk, _ = chunk_of(1, 1.0)
    (whole,) = strands_of(SUMS)
    kept = chunk.strands[whole][0]
    for members, places in ((SUMS, slice(0, 4)), (SUMS[1:3], slice(1, 3)), ([SUMS[2], SUMS[0]], [2, 0])):
        (strand,) = strands_of(members)
        located = chunk.located(strand)
        assert located is not None and located[0][0] is kept and located[1] == places
