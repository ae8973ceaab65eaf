"""What `make test-matrix` runs."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_whatever_grows_with_the_matrix_is_marked() -> None:
    """`make test-matrix` selects by the mark: a test that grows without it would never run in full."""
    growing = [
        path
        for path in TESTS.rglob("test_*.py")
        if re.search(r"is_full\(\)|sized\(", path.read_text()) and path.name != Path(__file__).name
    ]
    assert growing
    assert [path.name for path in growing if "mark.matrix" not in path.read_text()] == []
