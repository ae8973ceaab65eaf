"""The checker decides by the serialization graph what the definitions say: random histories of circular arrays."""

from __future__ import annotations

from random import Random

import pytest
from support.matrix import sized

from windrow.reference.transactions.window_states import SlotHistory, SlotOperation, is_conflict_serializable
from windrow.schedulers.check_history import HistoryCheck, check_history
from windrow.schedulers.notation import parse_history

COUNT = sized(500, 5_000, 20_000)
CHUNKS = 10


def random_history(random: Random, is_whole: bool, updates: int = 5) -> tuple[int, dict[str, int], list[SlotOperation]]:
    """Slots, the lengths of the queries' windows, and operations; updates commit at once.

    A query that `is_whole` has a window of all slots and reads each once; another may read any slots of the array.
    """
    slots = random.randint(2, 4)
    lengths = {f"Q{i}": slots if is_whole else random.randint(1, slots) for i in range(1, random.randint(2, 4))}
    left: dict[str, list[int]] = {}
    for query, length in lengths.items():
        left[query] = random.sample(range(slots), length)
    operations: list[SlotOperation] = []
    next_update = slots
    while left:
        if random.random() < 0.3 and next_update < slots + updates:
            operations += [("w", str(next_update), next_update % slots), ("c", str(next_update), 0)]
            next_update += 1
            continue
        query = random.choice(sorted(left))
        if left[query]:
            operations.append(("r", query, left[query].pop()))
        else:
            operations.append(("c", query, 0))
            del left[query]
    return slots, lengths, operations


def text_of(slots: int, lengths: dict[str, int], operations: list[SlotOperation]) -> str:
    words = [f"n={slots}", *(f"b{query}[{length}]" for query, length in lengths.items())]
    words += [f"{letter}{name}" if letter == "c" else f"{letter}{name}[{slot}]" for letter, name, slot in operations]
    return " ".join(words)


def checked(slots: int, lengths: dict[str, int], operations: list[SlotOperation]) -> HistoryCheck:
    return check_history(parse_history(text_of(slots, lengths, operations)))


@pytest.mark.matrix
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "shorter"])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_theorems_7_1_and_7_2(is_whole: bool, chunk: int) -> None:
    for number in range(chunk * COUNT // CHUNKS, (chunk + 1) * COUNT // CHUNKS):
        slots, lengths, operations = random_history(Random(f"history {number}"), is_whole)
        defined = SlotHistory(slots, lengths).replay(operations)
        check = checked(slots, lengths, operations)
        not_window = {one.query for one in check.window_serializable}
        not_latest = {one.query for one in check.latest_window_serializable}
        text = text_of(slots, lengths, operations)
        assert not_window == {query for query in lengths if not defined.is_window(query)}, text
        assert not_latest == {query for query in lengths if not defined.is_latest(query)}, text


@pytest.mark.matrix
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_serializable_and_theorem_7_5(chunk: int) -> None:
    for number in range(chunk * COUNT // CHUNKS // 2, (chunk + 1) * COUNT // CHUNKS // 2):
        slots, lengths, operations = random_history(Random(f"order {number}"), is_whole=True, updates=4)
        check = checked(slots, lengths, operations)
        text = text_of(slots, lengths, operations)
        assert (not check.conflict_serializable) == is_conflict_serializable(operations), text
        # Window updates commit at once: LWS = CPS.
        assert (not check.commit_order_preserving) == (not check.latest_window_serializable), text


def test_random_histories_are_of_every_kind() -> None:
    kinds = set()
    for number in range(200):
        check = checked(*random_history(Random(f"kind {number}"), is_whole=True))
        kinds.add(
            (not check.conflict_serializable, not check.window_serializable, not check.latest_window_serializable)
        )
    assert kinds >= {(True, True, True), (True, True, False), (True, False, False), (False, False, False)}
