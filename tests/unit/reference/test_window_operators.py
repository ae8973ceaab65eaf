"""The expressions of the reference have SQL's NULL."""

from __future__ import annotations

import pytest

from windrow.cql import parse_expression
from windrow.reference.window_operators import value_of


@pytest.mark.parametrize(
    ("text", "of_null", "of_false", "of_true"),
    [
        ("x IS NULL", True, False, False),
        ("x IS NOT NULL", False, True, True),
        ("x IS TRUE", False, False, True),
        ("NOT x IS TRUE", True, True, False),
        ("x IS FALSE", False, True, False),
        ("NOT x", None, True, False),
        ("x OR TRUE", True, True, True),
        ("x AND TRUE", None, False, True),
    ],
)
def test_null(text: str, of_null: bool | None, of_false: bool, of_true: bool) -> None:
    tree = parse_expression(text)
    assert [value_of(tree, {"x": x}) for x in (None, False, True)] == [of_null, of_false, of_true]
