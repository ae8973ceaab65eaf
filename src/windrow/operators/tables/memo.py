"""Remembers what was worked out for an object, such as a node of a plan, by its identity."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")

MOST = 4096
"""The most objects that one function remembers."""


def by_identity(make: Callable[[S], T]) -> Callable[[S], T]:
    """The function, computed once per object. Hashing a plan's node by its value would walk the whole plan."""
    known: dict[int, tuple[Any, T]] = {}
    lock = threading.Lock()

    @wraps(make)
    def found(of: S) -> T:
        cached = known.get(id(of))
        if cached is not None and cached[0] is of:
            return cached[1]
        made = make(of)
        with lock:
            if len(known) >= MOST:
                known.clear()
            known[id(of)] = (of, made)  # holding the object keeps its identity from being given to another
        return made

    return found
