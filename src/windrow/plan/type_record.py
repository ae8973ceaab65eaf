"""What Spark's analyser said about a query, so that the query can be bound again without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence

from windrow.plan.binder import TypesOf
from windrow.types import SqlType


class TypeRecord:
    """An analyser that notes its answers."""

    def __init__(self, types_of: TypesOf):
        self._types_of = types_of
        self._calls: list[tuple[list[str], list[str]]] = []

    def __call__(self, columns: Sequence[tuple[str, SqlType]], expressions: Sequence[str]) -> list[SqlType]:
        types = self._types_of(columns, expressions)
        self._calls.append((list(expressions), [kind.name for kind in types]))
        return types

    def saved(self) -> str:
        return json.dumps(self._calls)


class RecordedTypes:
    """Repeats recorded answers in their order. `types_of` answers what was not recorded."""

    def __init__(self, saved: str | None, types_of: TypesOf):
        self._calls = iter(json.loads(saved) if saved else [])
        self._types_of = types_of

    def __call__(self, columns: Sequence[tuple[str, SqlType]], expressions: Sequence[str]) -> list[SqlType]:
        asked, types = next(self._calls, (None, []))
        if asked == list(expressions):
            return [SqlType(name) for name in types]
        self._calls = iter([])
        return self._types_of(columns, expressions)
