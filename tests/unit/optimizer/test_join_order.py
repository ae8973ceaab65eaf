"""Tables 5.3–5.6 of Golab's dissertation (Table 5.5 with λ1 = 10, as its costs require)."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.optimizer.join_order import JoinCondition, JoinInput, best_order, cost, matches_of
from windrow.reference.join_heuristic import by_selectivity, candidates, heuristic_order

TABLE_5_3 = (JoinInput(10, 100, 500), JoinInput(1, 100, 50), JoinInput(1, 200, 40), JoinInput(3, 100, 5))
TABLE_5_5 = (JoinInput(10, 100, 40), JoinInput(1, 100, 100), JoinInput(1, 100, 8), JoinInput(1, 100, 5))
TABLE_5_6 = (JoinInput(11, 100, 200), JoinInput(10, 100, 100), JoinInput(1, 100, 65), JoinInput(1, 100, 20))


def costed(order: str, table: tuple[JoinInput, ...]) -> int:
    """The cost of an order written as in the tables: 2134 is S2, S1, S3, S4."""
    return round(cost([int(one) - 1 for one in order], table))


def all_costs(table: tuple[JoinInput, ...]) -> list[float]:
    return [cost(order, table) for order in permutations(range(len(table)))]


def test_table_5_3() -> None:
    assert costed("1234", TABLE_5_3) == 16_000
    assert round(max(all_costs(TABLE_5_3))) == 86_850
    assert by_selectivity(TABLE_5_3)[2:] == (2, 3) and set(by_selectivity(TABLE_5_3)[:2]) == {0, 1}


def test_table_5_4() -> None:
    def phi(*inputs: int) -> float:
        return matches_of([TABLE_5_3[i - 1] for i in inputs])

    sizes = [phi(1, 2), phi(1, 3), phi(1, 4), phi(2, 3), phi(2, 4), phi(3, 4), phi(1, 2, 3), phi(1, 2, 4)]
    assert sizes == pytest.approx([200, 400, 600, 400, 600, 1500, 800, 1200])


def test_table_5_5() -> None:
    assert [costed(order, TABLE_5_5) for order in ("2134", "2341", "1234")] == [16_200, 42_600, 21_000]
    assert round(max(all_costs(TABLE_5_5))) == 135_150
    assert min(all_costs(TABLE_5_5)) == pytest.approx(16_200)
    assert by_selectivity(TABLE_5_5) == (1, 2, 3, 0)
    assert best_order(TABLE_5_5) == heuristic_order(TABLE_5_5) == (1, 0, 2, 3)


def test_table_5_6() -> None:
    orders = ("3412", "3142", "3124", "1234", "2134")
    assert [costed(order, TABLE_5_6) for order in orders] == [49_542, 47_977, 51_954, 68_200, 79_000]
    assert round(sum(all_costs(TABLE_5_6)) / 24) == 63_362
    assert best_order(TABLE_5_6) == heuristic_order(TABLE_5_6) == (2, 0, 3, 1)
    assert by_selectivity(TABLE_5_6) == (2, 3, 0, 1)


def test_hash_tables_compare_one_bucket() -> None:
    hashed = [JoinInput(1, 10, 5, 5), JoinInput(2, 10, 4, 4), JoinInput(3, 10, 2, 2)]
    new_first = 1 * (20 / 4 + 20 / 5 * 30 / 2)
    new_second = 2 * (10 / 5 + 10 / 5 * 30 / 2)
    new_third = 3 * (10 / 5 + 10 / 5 * 20 / 4)
    assert cost((0, 1, 2), hashed) == pytest.approx(new_first + new_second + new_third)


def test_no_key_is_a_product() -> None:
    assert matches_of([JoinInput(1, 10, 1), JoinInput(1, 20, 1)]) == 200


def test_condition_counts_once_its_inputs_are_joined() -> None:
    inputs = tuple(JoinInput(1, 10, 1) for _ in range(3))
    condition = [JoinCondition(frozenset({0, 2}), 0.1)]
    assert cost((0, 1, 2), inputs) == 3 * (10 + 100)
    assert cost((0, 2, 1), inputs, condition) == (10 + 10) + (10 + 100) + (10 + 10)
    order = best_order(inputs, condition)
    assert set(order[:2]) == {0, 2}


def test_given_order_stays_if_it_is_as_cheap() -> None:
    assert best_order((JoinInput(1, 10, 5), JoinInput(7, 10, 5))) == (0, 1)
    assert best_order(tuple(JoinInput(1, 10, 5) for _ in range(8))) == tuple(range(8))


NUMBERS = st.sampled_from([0.5, 1.0, 3.0, 10.0, 100.0])


@given(
    st.lists(st.builds(JoinInput, NUMBERS, NUMBERS, NUMBERS, NUMBERS), min_size=2, max_size=5),
    st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=2, max_size=3), st.sampled_from([0.01, 0.5])), max_size=2),
)
def test_best_of_all_orders(inputs: list[JoinInput], conditions: list[tuple[set[int], float]]) -> None:
    held = [JoinCondition(frozenset(i for i in own if i < len(inputs)), s) for own, s in conditions]
    held = [one for one in held if len(one.inputs) > 1]
    least = min(cost(order, inputs, held) for order in permutations(range(len(inputs))))
    assert cost(best_order(inputs, held), inputs, held) == pytest.approx(least)
    if not held:
        assert all(sorted(order) == list(range(len(inputs))) for order in candidates(inputs))
        assert cost(heuristic_order(inputs), inputs) >= least * (1 - 1e-9)
