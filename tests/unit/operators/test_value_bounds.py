"""The bound on values that a kernel makes may change while it lives."""

from __future__ import annotations

import pyarrow as pa

from windrow.cql.select_text import parse_expression
from windrow.operators.tables.kernel import Kernel
from windrow.types import SqlType


def test_larger_values_are_allowed_at_once() -> None:
    most = [40]
    kernel, doubled = Kernel(lambda: most[0]), parse_expression("concat(k, k)")
    rows, types = pa.table({"k": ["a" * 30]}), {"k": SqlType("STRING")}
    assert kernel.evaluate([doubled], types, rows)[0].to_pylist() == [None]
    most[0] = 100
    assert kernel.evaluate([doubled], types, rows)[0].to_pylist() == ["a" * 60]
