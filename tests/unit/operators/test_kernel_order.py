"""Values of expressions come in the order of the rows, however these are chunked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import parse_one

from windrow.operators.tables.kernel import Kernel
from windrow.types import SqlType

VALUES = np.arange(5_000) % 97


@pytest.mark.parametrize("constants", [1, 4, 5, 10])
@pytest.mark.parametrize("first", [1, 10, 64, 1_000])
def test_in_after_a_small_chunk(first: int, constants: int) -> None:
    """DuckDB makes a join of IN with five constants, which would give the rows of a first small chunk later."""
    column = pa.chunked_array([pa.array(VALUES[:first]), pa.array(VALUES[first:])])
    listed = ", ".join(str(i) for i in range(constants))
    predicate = parse_one(f"x IN ({listed})", dialect="spark")
    found = Kernel().is_true(predicate, {"x": SqlType("BIGINT")}, pa.table({"x": column}))
    assert found.to_pylist() == (VALUES < constants).tolist()
