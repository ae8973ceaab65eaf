"""Freed memory goes back to the system once the process has grown by enough."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from windrow.dataplane import memory


@pytest.mark.skipif(memory.resident_bytes() is None, reason="the system does not say how much is resident")
def test_freed_memory_is_returned() -> None:
    memory.give_back()
    before = memory.resident_bytes()
    assert before is not None and not memory.give_back(), "it has not grown"
    numbers = pa.array(np.arange(4_000_000))
    parts = [numbers.slice(i * 40_000, 40_000).dictionary_encode() for i in range(100) for _ in range(3)]
    grown = memory.resident_bytes()
    assert grown is not None and grown > before + memory.GROWN_BYTES
    del numbers, parts
    assert memory.give_back()
    after = memory.resident_bytes()
    assert after is not None and after < before + memory.GROWN_BYTES // 2
