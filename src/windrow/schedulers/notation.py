"""Histories as text: the compact notation of the texts, and JSON lines for recorded runs.

The compact notation, over a circular array of slots as in Golab's dissertation, section 7.3.1:

    n=5 rQ1[0] w5[0] c5 w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1

`w5[0]` replaces the oldest pane, which is in slot 0; a later `r…[0]` reads the new one. Updates write slot after slot.
`n=` may be left out: the slots are then those that are named. `bQ1[3]` says that the window of Q1 has three panes, not
n. `rQ1[B0]` is slot 0 of source B. `dQ1[0]` drops what was read of slot 0.

With panes of any width, the sources and the lengths of windows are said first, and panes are intervals:

    s[0:500] bQ1[300] rQ1[400:500] w5[500:550] c5 rQ1[500:550] cQ1

`#` begins a comment. JSON lines have one entry per line:

    {"op": "s", "source": "packets", "first": 0, "last": 500, "upto": 500, "kind": "window"}
    {"op": "b", "by": "Q1", "lengths": {"packets": 300}, "tick": 1}
    {"op": "r", "by": "Q1", "source": "packets", "start": 400, "end": 500}
    {"op": "c", "by": "Q1", "isolation": "latest"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from windrow.errors import HistoryError, Place
from windrow.schedulers.history import (
    Entry,
    History,
    Isolation,
    Op,
    Operation,
    SourceBegins,
    TransactionBegins,
)
from windrow.schedulers.panes import Pane, SourceKind

_NAME = r"[A-Za-z]*\d+(?:\.\d+)?"
_TOKEN = re.compile(rf"(?P<op>[rdwcabs])(?P<by>{_NAME})?(?:\[(?P<inside>[^\]]*)\])?|n=(?P<slots>\d+)")
_SLOT = re.compile(r"(?P<source>[A-Za-z_]*)(?P<slot>\d+)")
_INTERVAL = re.compile(r"(?:(?P<source>\w+)\s+)?(?P<start>-?\d+)\s*:\s*(?P<end>-?\d+)")
_LENGTH = re.compile(r"(?:(?P<source>[A-Za-z_]\w*)\s+)?(?P<length>\d+)")
_REMEDY = "It is like `rQ1[0] w5[0] c5 rQ1[1] cQ1`; or JSON lines. docs/internals/isolation.md has both forms."


def read_history(text: str) -> History:
    """The history of a text: JSON lines if it begins with a brace, else the compact notation."""
    return from_json_lines(text.splitlines()) if text.lstrip().startswith("{") else parse_history(text)


# The compact notation


@dataclass(frozen=True)
class _Token:
    """A word of the compact notation: its letter, its transaction, what is in brackets, and its place."""

    op: str
    by: str
    inside: str
    place: Place

    def fault(self, what: str) -> HistoryError:
        return HistoryError(what, place=self.place, remedy=_REMEDY)


def parse_history(text: str) -> History:
    """The history of a text in the compact notation."""
    slots, tokens = _tokens(text)
    if not tokens:
        raise HistoryError("there is no operation", remedy=_REMEDY)
    with_intervals = any(token.op == "s" for token in tokens)
    if with_intervals and slots is not None:
        raise tokens[0].fault("`n=` counts slots, and `s[…]` begins a source of intervals: write one of them")
    entries = list(_of_intervals(tokens) if with_intervals else _of_slots(tokens, slots))
    return History(tuple(entry for entry, _ in entries), tuple(token.place.line for _, token in entries))


def _tokens(text: str) -> tuple[int | None, list[_Token]]:
    """The slots that `n=` declares, and the other words."""
    slots, found = None, []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.partition("#")[0]
        at = 0
        while at < len(code):
            if code[at] in " \t,;":
                at += 1
                continue
            match = _TOKEN.match(code, at)
            end = match.end() if match else at
            if match is None or (end < len(code) and code[end] not in " \t,;"):
                word = re.split(r"[\s,;]", code[at:], maxsplit=1)[0]
                place = Place(text, number, at + 1, len(word))
                raise HistoryError(f"'{word}' is no operation", place=place, remedy=_REMEDY)
            if match["slots"]:
                slots = int(match["slots"])
            else:
                place = Place(text, number, at + 1, end - at)
                found.append(_checked(_Token(match["op"], match["by"] or "", match["inside"] or "", place)))
            at = end
    return slots, found


def _checked(token: _Token) -> _Token:
    if token.op != "s" and not token.by:
        raise token.fault(f"'{token.op}' names no transaction")
    if token.op in "ca" and token.inside:
        raise token.fault(f"'{token.op}' takes no pane")
    if token.op not in "ca" and not token.inside:
        raise token.fault(f"'{token.op}{token.by}' names no pane")
    return token


def _matched(pattern: re.Pattern[str], token: _Token, what: str) -> re.Match[str]:
    match = pattern.fullmatch(token.inside.strip())
    if match is None:
        raise token.fault(f"[{token.inside}] is no {what}")
    return match


@contextmanager
def _blaming(token: _Token) -> Iterator[None]:
    """What is illegal is so at the place of a token."""
    try:
        yield
    except ValueError as error:
        raise token.fault(str(error)) from None


def _lengths(token: _Token, sources: Iterable[str]) -> dict[str, int | None]:
    """`bQ1[300]` is a length for every source, `bQ1[A 300, B 200]` one for each."""
    found: dict[str, int | None] = {}
    for part in token.inside.split(","):
        match = _LENGTH.fullmatch(part.strip())
        if match is None:
            raise token.fault(f"[{token.inside}] is no length of a window")
        found |= dict.fromkeys([match["source"]] if match["source"] else sources, int(match["length"]))
    return found


def _of_intervals(tokens: list[_Token]) -> Iterator[tuple[Entry, _Token]]:
    sources: list[str] = []
    for token in tokens:
        with _blaming(token):
            if token.op == "s":
                pane = _interval(token)
                sources.append(pane.source)
                entry: Entry = SourceBegins(pane.source, pane.start, pane.end, pane.end)
            elif token.op == "b":
                entry = TransactionBegins(token.by, _lengths(token, sources))
            else:
                entry = Operation(Op(token.op), token.by, None if token.op in "ca" else _interval(token))
        yield entry, token


def _interval(token: _Token) -> Pane:
    match = _matched(_INTERVAL, token, "pane: it is like [400:500] or [packets 400:500]")
    return Pane(match["source"] or "", int(match["start"]), int(match["end"]))


class _Slots:
    """The circular array of one source: which pane is in which slot.

    The pane that the first update T_j writes is j, and the ones before it are numbered back from there.
    """

    def __init__(self, source: str, count: int, first_slot: int, first_name: int):
        self.source = source
        self.count = count
        self.next_slot = first_slot
        self.first = first_name - count
        self.upto = first_name
        self.panes = {(first_slot + i) % count: self.first + i for i in range(count)}

    def pane(self, token: _Token, slot: int) -> Pane:
        if slot not in self.panes:
            raise token.fault(f"there is no slot {slot}: there are {self.count}, from 0")
        if token.op == "w":
            if slot != self.next_slot:
                raise token.fault(f"T{token.by} replaces the oldest pane, which is in slot {self.next_slot}")
            self.panes[slot] = self.upto
            self.upto += 1
            self.next_slot = (slot + 1) % self.count
        return Pane(self.source, self.panes[slot], self.panes[slot] + 1)


def _of_slots(tokens: list[_Token], declared: int | None) -> Iterator[tuple[Entry, _Token]]:
    arrays = _arrays(tokens, declared)
    for array in arrays.values():
        yield SourceBegins(array.source, array.first, array.upto, array.upto), tokens[0]
    begins = _begins(tokens, arrays)
    read: dict[tuple[str, str], list[Pane]] = {}
    for token in tokens:
        if token.op == "b":
            continue  # it takes effect with the first read
        if token.op in "ca":
            yield Operation(Op(token.op), token.by), token
            continue
        if token.op == "r" and token.by in begins:
            yield begins.pop(token.by), token
        source, slot = _slot(token)
        seen = read.setdefault((token.by, token.inside.strip()), [])
        if token.op == "d":  # what was read, whatever the slot holds now
            if not seen:
                raise token.fault(f"{token.by} has read nothing of slot {slot}")
            pane = seen.pop(0)
        else:
            pane = arrays[source].pane(token, slot)
        if token.op == "r":
            seen.append(pane)
        yield Operation(Op(token.op), token.by, pane), token


def _slot(token: _Token) -> tuple[str, int]:
    match = _matched(_SLOT, token, "slot: it is like [0]; `s[0:5]` begins a history of intervals")
    return match["source"], int(match["slot"])


def _begins(tokens: list[_Token], arrays: Mapping[str, _Slots]) -> dict[str, TransactionBegins]:
    """How each query begins: with windows over what it reads, of all slots or as long as `b` says."""
    lengths: dict[str, dict[str, int | None]] = {}
    for token in tokens:
        if token.op == "r":
            source, _ = _slot(token)
            lengths.setdefault(token.by, {})[source] = arrays[source].count
    for token in tokens:
        if token.op == "b" and token.by in lengths:
            own = lengths[token.by]
            own |= {source: length for source, length in _lengths(token, own).items() if source in own}
            with _blaming(token):
                TransactionBegins(token.by, own)
    return {query: TransactionBegins(query, own) for query, own in lengths.items()}


def _arrays(tokens: list[_Token], declared: int | None) -> dict[str, _Slots]:
    """The array of each source: as many slots as are named, unless declared; the first one written is the oldest."""
    greatest: dict[str, int] = {}
    first: dict[str, tuple[int, int]] = {}
    newest: dict[str, int] = {}
    for token in (token for token in tokens if token.op in "rdw"):
        source, slot = _slot(token)
        greatest[source] = max(slot, greatest.get(source, 0))
        if token.op == "w":
            name = int(re.sub(r"\D.*", "", token.by.lstrip("TQ")) or 0)
            if name <= newest.get(source, -1):
                raise token.fault(f"T{token.by} comes after T{newest[source]}: updates are in order of their numbers")
            newest[source] = name
            first.setdefault(source, (slot, name))
    return {
        source: _Slots(source, count, *first.get(source, (0, count)))
        for source, count in ((s, declared or most + 1) for s, most in sorted(greatest.items()))
    }


def compact(history: History) -> str:
    """The history in the compact notation, with intervals; a ValueError if a source is not a window."""
    words: list[str] = []
    for entry in history.entries:
        if isinstance(entry, Operation):
            words.append(str(entry))
        elif isinstance(entry, SourceBegins):
            if entry.kind is not SourceKind.WINDOW or entry.first == entry.last:
                raise ValueError(f"source {entry.source} has no compact form: write JSON lines")
            words.append(f"s[{_spaced(entry.source)}{entry.first}:{entry.last}]")
        else:
            lengths = ", ".join(f"{_spaced(source)}{length}" for source, length in entry.lengths.items())
            if None in entry.lengths.values() or entry.tick != 1:
                raise ValueError(f"query {entry.by} has no compact form: write JSON lines")
            words.append(f"b{entry.by}[{lengths}]")
    return " ".join(words)


def _spaced(source: str) -> str:
    return f"{source} " if source else ""


# JSON lines


def to_json(entry: Entry) -> str:
    """One entry as a line."""
    if isinstance(entry, SourceBegins):
        begun = {"source": entry.source, "first": entry.first, "last": entry.last, "upto": entry.upto}
        return json.dumps({"op": "s", **begun, "kind": entry.kind.value})
    if isinstance(entry, TransactionBegins):
        return json.dumps({"op": "b", "by": entry.by, "lengths": dict(entry.lengths), "tick": entry.tick})
    line: dict[str, Any] = {"op": entry.op.value, "by": entry.by}
    if entry.pane is not None:
        line |= {"source": entry.pane.source, "start": entry.pane.start, "end": entry.pane.end}
    if entry.upto is not None:
        line["upto"] = entry.upto
    if entry.isolation is not None:
        line["isolation"] = entry.isolation.value
    return json.dumps(line)


def from_json_lines(lines: Iterable[str]) -> History:
    """The history of a recorded run; a line that is no entry is a HistoryError with its number."""
    entries: list[Entry] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entries.append(_entry(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
            shown = line.strip() if len(line.strip()) <= 200 else line.strip()[:200] + "…"
            raise HistoryError(f"line {number}: {shown} is no entry of a history: {what}") from None
        numbers.append(number)
    return History(tuple(entries), tuple(numbers))


def _entry(line: dict[str, Any]) -> Entry:
    op = line["op"]
    if op == "s":
        kind = SourceKind(line.get("kind", "window"))
        bounds = {name: _integer(line, name) for name in ("first", "last", "upto")}
        return SourceBegins(_name(line, "source"), **bounds, kind=kind)
    if op == "b":
        given = line["lengths"]
        lengths = {source: None if given[source] is None else _integer(given, source) for source in given}
        return TransactionBegins(_name(line, "by"), lengths, _integer(line, "tick") if "tick" in line else 1)
    pane = None
    if "source" in line:
        pane = Pane(_name(line, "source"), _integer(line, "start"), _integer(line, "end"))
    isolation = Isolation(line["isolation"]) if "isolation" in line else None
    return Operation(Op(op), _name(line, "by"), pane, _integer(line, "upto") if "upto" in line else None, isolation)


def _integer(line: Mapping[str, Any], name: str) -> int:
    value = line[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"'{name}' is {value!r}, not an integer")
    return value


def _name(line: Mapping[str, Any], name: str) -> str:
    value = line[name]
    if not isinstance(value, str):
        raise ValueError(f"'{name}' is {value!r}, not a text")
    return value
