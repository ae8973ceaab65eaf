"""Aggregates decompose into accumulators, with Spark's result types; equal text gives equal accumulators."""

from __future__ import annotations

import pytest

from windrow.errors import BindError
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.aggregates import FUNCTIONS, MOMENT_FUNCTIONS, decompose
from windrow.types import SqlType

INT, BIGINT, DOUBLE, STRING = SqlType("INT"), SqlType("BIGINT"), SqlType("DOUBLE"), SqlType("STRING")


@pytest.mark.parametrize(
    ("function", "type_", "result"),
    [
        ("COUNT", "STRING", "BIGINT"),
        ("SUM", "TINYINT", "BIGINT"),
        ("SUM", "BIGINT", "BIGINT"),
        ("SUM", "FLOAT", "DOUBLE"),
        ("SUM", "DECIMAL(12,2)", "DECIMAL(22,2)"),
        ("SUM", "DECIMAL(38,10)", "DECIMAL(38,10)"),
        ("AVG", "INT", "DOUBLE"),
        ("AVG", "DECIMAL(12,2)", "DECIMAL(16,6)"),
        ("AVG", "DECIMAL(38,36)", "DECIMAL(38,38)"),
        ("MIN", "DATE", "DATE"),
        ("MAX", "DECIMAL(38,10)", "DECIMAL(38,10)"),
        ("MAX", "VOID", "STRING"),
        ("VARIANCE", "DECIMAL(12,2)", "DOUBLE"),
        ("STDDEV_POP", "FLOAT", "DOUBLE"),
        ("AVG", "VOID", "DOUBLE"),
    ],
)
def test_result_types(function: str, type_: str, result: str) -> None:
    assert decompose(function, "x", SqlType(type_), None).result == SqlType(result)


def test_count_star() -> None:
    call = decompose("COUNT", None, None, "a > 0")
    assert call.parts == (("n", Accumulator(Kind.COUNT, None, None, "a > 0")),)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("INT", Kind.SUM_INT),
        ("SMALLINT", Kind.SUM_INT),
        ("BIGINT", Kind.SUM_LONG),
        ("DOUBLE", Kind.SUM_DOUBLE),
        ("DECIMAL(5,1)", Kind.SUM_DECIMAL),
    ],
)
def test_avg_and_sum_share_accumulators(type_: str, kind: Kind) -> None:
    total, average = (decompose(f, "x", SqlType(type_), None) for f in ("SUM", "AVG"))
    assert total.parts == average.parts
    assert total.part("s").kind is kind


def test_sum_of_doubles() -> None:
    call = decompose("SUM", "x", DOUBLE, "p")
    assert [role for role, _ in call.parts] == ["n", "s", "nan", "above", "below"]
    assert call.part("n").condition == "p"
    for role in ("s", "nan", "above", "below"):
        condition = call.part(role).condition
        assert condition is not None and condition.startswith("(p) AND (")


def test_min_and_max_share_the_count() -> None:
    least, greatest = (decompose(f, "x", STRING, None) for f in ("MIN", "MAX"))
    assert least.part("n") == greatest.part("n")
    assert least.part("v").kind is Kind.LEAST and greatest.part("v").kind is Kind.GREATEST


def test_moments_share_one_accumulator() -> None:
    assert len({decompose(f, "x", INT, None).parts for f in MOMENT_FUNCTIONS}) == 1
    finite = decompose("VARIANCE", "x", DOUBLE, None).part("m").condition
    assert finite is not None and "Infinity" in finite


@pytest.mark.parametrize("function", ["SUM", "AVG", *MOMENT_FUNCTIONS])
def test_argument_is_not_a_number(function: str) -> None:
    for type_ in ("DATE", "TIMESTAMP", "BOOLEAN", "BINARY"):
        with pytest.raises(BindError, match="takes a number") as raised:
            decompose(function, "x", SqlType(type_), None)
        assert raised.value.remedy and "CAST(x AS INT)" in raised.value.remedy


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f != "COUNT"])
def test_missing_argument(function: str) -> None:
    with pytest.raises(BindError, match="needs an argument"):
        decompose(function, None, None, None)


def test_bad_accumulators() -> None:
    with pytest.raises(ValueError, match="only COUNT"):
        Accumulator(Kind.SUM_INT, None, None, None)
    with pytest.raises(ValueError, match="has a type"):
        Accumulator(Kind.COUNT, "x", None, None)
    with pytest.raises(ValueError, match="has a type"):
        Accumulator(Kind.COUNT, None, INT, None)


def test_id_depends_on_text_only() -> None:
    """Columns of blocks are named by the id, so it must be the same in another process."""
    one = Accumulator(Kind.SUM_INT, "x", INT, None)
    assert one.id == Accumulator(Kind.SUM_INT, "x", INT, None).id == "bcc6fe97a9f4"
    others = [
        Accumulator(Kind.SUM_LONG, "x", INT, None),
        Accumulator(Kind.SUM_INT, "y", INT, None),
        Accumulator(Kind.SUM_INT, "x", BIGINT, None),
        Accumulator(Kind.SUM_INT, "x", INT, "p"),
        Accumulator(Kind.COUNT, None, None, "x"),
        Accumulator(Kind.COUNT, "x", INT, None),
    ]
    assert len({one.id, *(a.id for a in others)}) == 1 + len(others)
