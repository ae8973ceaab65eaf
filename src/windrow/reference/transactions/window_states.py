"""Definitions 7.1 and 7.2 of Golab's dissertation, literally: the states of a window, and which of them a query read.

A window is a circular array of slots. `schedulers/check_history.py` decides the same by the serialization graph
(Theorems 7.1 and 7.2), for more kinds of windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

SlotOperation = tuple[str, str, int]
"""(r, w or c; the transaction; the slot), as in `("w", "5", 0)`. The slot of a commit does not count."""


@dataclass
class SlotHistory:
    """What happened: every state of the window as the panes in it, oldest first, and what each query read.

    Panes are numbered from 0 at the start; of n slots, slot i holds pane i, and updates write slot after slot.
    """

    slots: int
    lengths: Mapping[str, int]
    states: list[list[int]] = field(default_factory=list)
    read: dict[str, list[int]] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)

    def replay(self, operations: Sequence[SlotOperation]) -> SlotHistory:
        self.states = [list(range(self.slots))]
        for letter, name, slot in operations:
            state = self.states[-1]
            if letter == "r":
                self.read.setdefault(name, []).append(next(pane for pane in state if pane % self.slots == slot))
            elif letter == "w":
                self.states.append([*state[1:], state[-1] + 1])
            elif name in self.lengths:
                self.committed[name] = len(self.states) - 1
        return self

    def window(self, query: str, state: int) -> list[int]:
        """The panes of a query's window, the youngest of the array, in a state."""
        return self.states[state][self.slots - self.lengths[query] :]

    def is_window(self, query: str) -> bool:
        """Definition 7.1: it read a true state of the window as of a time on or before its commit."""
        seen = sorted(self.read.get(query, []))
        return any(seen == self.window(query, state) for state in range(self.committed[query] + 1))

    def is_latest(self, query: str) -> bool:
        """Definition 7.2: it read the state of the window as of its commit."""
        return sorted(self.read.get(query, [])) == self.window(query, self.committed[query])


def is_conflict_serializable(operations: Sequence[SlotOperation]) -> bool:
    """Whether some serial order has all conflicts in the order in which they happened, by trying each order."""
    committed = [name for letter, name, _ in operations if letter == "c"]
    acting = [one for one in operations if one[0] != "c" and one[1] in committed]
    conflicts = {
        (one[1], other[1])
        for at, one in enumerate(acting)
        for other in acting[at + 1 :]
        if one[1] != other[1] and one[2] == other[2] and "w" in (one[0], other[0])
    }
    orders = ({name: at for at, name in enumerate(order)} for order in permutations(committed))
    return any(all(place[a] < place[b] for a, b in conflicts) for place in orders)
