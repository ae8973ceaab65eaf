"""Fuzzed statements: made, tried, and counted. Each outcome is a success or a WindrowError, within a time limit.

A CREATE QUERY is bound and explained but not created, so that it costs no Spark job and leaves nothing behind.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from sqlglot import exp

from fuzz.corpus import corpus
from fuzz.streams import CREATE
from fuzz.texts import mutate_characters, mutate_words, words_of
from fuzz.trees import mutate
from windrow.cql import CQL, parse, parse_one
from windrow.cql.dialect import window_of
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery, CreateStream, Drop, Explain, Select, SetSetting, Statement
from windrow.errors import WindrowError
from windrow.settings import SPECS

SECONDS = 20.0
"""The time limit of a statement. The slowest take a second; a loaded machine is slower."""


def statement(seed: int, number: int) -> str:
    """The statement of this number. It depends on nothing else."""
    rng = Random(f"{seed}/{number}")
    found, draw = corpus(), rng.random()
    if draw < 0.06:
        return mutate_words(rng.choice(found.texts), rng, _words())
    text = _query_text(mutate(rng.choice(found.queries), found.queries, rng), rng)
    if draw < 0.16:
        return mutate_words(text, rng, _words())
    return mutate_characters(text, rng) if draw < 0.24 else text


@cache
def _words() -> list[str]:
    found = corpus()
    return words_of([*found.texts, *(query.sql(dialect=CQL) for query in found.queries)])


def _query_text(select: exp.Select, rng: Random) -> str:
    window = window_of(next(select.find_all(exp.Table)))
    if window is not None and window.slide is None or rng.random() < 0.03:
        return to_text(Select(select))
    text = to_text(CreateQuery("q", select))
    return f"{text} INTO {rng.choice(('console', 'nowhere'))}" if rng.random() < 0.02 else text


@dataclass(frozen=True)
class Finding:
    """A statement whose outcome is neither a success nor a WindrowError."""

    number: int
    text: str
    what: str

    def __str__(self) -> str:
        return f"statement {self.number}: {self.text[:2000]!r}\n{self.what}"


@dataclass
class Tally:
    """What became of the statements. `accepted` has the numbers and texts of standing queries that were accepted."""

    tried: int = 0
    bound: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    accepted: list[tuple[int, CreateQuery]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    @property
    def share_bound(self) -> float:
        """The share that was read without an error, and so reached the binder."""
        return self.bound / max(1, self.tried)

    def count(self, attempt: Attempt) -> None:
        self.tried += 1
        self.bound += attempt.parsed is not None
        self.codes.update(attempt.codes)
        self.accepted += [(attempt.number, query) for query in attempt.accepted]
        self.slowest = max(self.slowest, (attempt.took, attempt.text))
        if attempt.wrong:
            self.findings.append(Finding(attempt.number, attempt.text, attempt.wrong))

    def __str__(self) -> str:
        codes = ", ".join(f"{code} {count:,}" for code, count in self.codes.most_common())
        return (
            f"{self.tried:,} statements, {self.share_bound:.0%} reached the binder, {len(self.accepted):,} queries accepted;"
            f" {codes}; the slowest took {self.slowest[0]:.1f} s"
        )


class Target:
    """An open state directory with the fuzzed streams, in which statements are tried."""

    def __init__(self, wr: Any):
        self.wr = wr
        for create in CREATE.values():
            wr.sql(create)

    def try_one(self, one: Statement, text: str) -> None:
        """Execute a statement, or explain it if it is a query. What it changed is put back."""
        if isinstance(one, CreateQuery | Select):
            self.wr.execute(Explain(one), text)
            return
        try:
            self.wr.execute(one, text)
        finally:
            self._put_back(one)

    def _put_back(self, one: Statement) -> None:
        if isinstance(one, SetSetting) and one.name.lower() in SPECS:
            self.wr.sql(f"SET {one.name} = '{SPECS[one.name.lower()].default}'")
        streams = {row["name"].lower() for row in self.wr.sql("SHOW STREAMS").rows()}
        if isinstance(one, CreateStream) and one.name.lower() not in CREATE and one.name.lower() in streams:
            self.wr.execute(Drop("STREAM", one.name))
        for name, create in CREATE.items():
            if name not in streams:
                self.wr.sql(create)


def fuzz(target: Target, seed: int, numbers: Iterable[int], say: Callable[[Tally], None] | None = None) -> Tally:
    """Try the statements of these numbers: queries in two threads, then those that change the catalog, one by one."""
    tally, later = Tally(), list[Attempt]()
    for attempt in _attempts(target, ((number, statement(seed, number)) for number in numbers), later.append):
        tally.count(attempt)
        if say is not None and tally.tried % 1000 == 0:
            say(tally)
    for attempt in later:
        begun = time.monotonic()
        attempt.execute(target)
        attempt.took = time.monotonic() - begun
        tally.count(attempt)
    return tally


@dataclass
class Attempt:
    """A statement, and what became of it: the codes of its errors or `ok`, what is wrong with the outcome, the queries
    that were accepted."""

    number: int
    text: str
    parsed: list[Statement] | None = None
    codes: list[str] = field(default_factory=list)
    accepted: list[CreateQuery] = field(default_factory=list)
    wrong: str = ""
    took: float = 0.0

    def read(self) -> None:
        self._guarded(self._parse)

    def _parse(self) -> None:
        self.parsed = parse(self.text)

    @property
    def is_query(self) -> bool:
        """Whether it changes nothing: it does not parse, or all of it is explained."""
        return all(isinstance(one, CreateQuery | Select) for one in self.parsed or ())

    def execute(self, target: Target) -> None:
        for one in self.parsed or ():
            if not self._guarded(lambda one=one: self._try(target, one)):
                return
            self.codes.append("ok")
            self.accepted += [one] if isinstance(one, CreateQuery) else []

    def _try(self, target: Target, one: Statement) -> None:
        if not isinstance(one, CreateQuery | Select) and parse_one(to_text(one)) != one:  # `parse` checks those itself
            self.wrong = f"printed, it is read as another statement: {to_text(one)}"
        target.try_one(one, self.text)

    def _guarded(self, step: Callable[[], None]) -> bool:
        """Whether the step succeeds. Any exception but a WindrowError is wrong."""
        try:
            step()
        except WindrowError as error:
            self.codes.append(error.code)
            self.wrong = self.wrong or _shown(error)
        except Exception:
            self.wrong = traceback.format_exc()
        else:
            return True
        return False


def _attempts(target: Target, cases: Iterable[tuple[int, str]], later: Callable[[Attempt], None]) -> Iterator[Attempt]:
    """Try queries in two threads, and give them in order. While Spark analyses for one thread, the other parses."""
    workers = [_Worker(target), _Worker(target)]
    waiting: list[tuple[_Worker, Attempt]] = []
    for turn, (number, text) in enumerate(cases):
        if len(waiting) == len(workers):
            yield from _finished(*waiting.pop(0), later)
        worker = workers[turn % len(workers)]
        waiting.append((worker, worker.begin(Attempt(number, text))))
    for worker, attempt in waiting:
        yield from _finished(worker, attempt, later)


def _finished(worker: _Worker, attempt: Attempt, later: Callable[[Attempt], None]) -> Iterator[Attempt]:
    worker.wait(attempt)
    if attempt.is_query:
        yield attempt
    else:
        later(attempt)


def _shown(error: WindrowError) -> str:
    """Every error has a message, shows its place and can be printed."""
    try:
        return "" if error.message and str(error).encode("utf-8", "surrogatepass") else "an error without a message"
    except Exception:
        return traceback.format_exc()


class Hang(Exception):
    """A statement took longer than the limit."""


class _Worker:
    """Tries statements in a thread of its own, so that the caller can stop waiting for one."""

    def __init__(self, target: Target) -> None:
        self._given: queue.SimpleQueue[Attempt] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Attempt] = queue.SimpleQueue()
        self._target = target
        self._thread = threading.Thread(target=self._work, daemon=True, name="fuzz")
        self._thread.start()

    def _work(self) -> None:
        while True:
            attempt = self._given.get()
            begun = time.monotonic()
            attempt.read()
            if attempt.is_query:
                attempt.execute(self._target)
            attempt.took = time.monotonic() - begun
            self._done.put(attempt)

    def begin(self, attempt: Attempt) -> Attempt:
        self._given.put(attempt)
        return attempt

    def wait(self, attempt: Attempt) -> None:
        try:
            self._done.get(timeout=SECONDS)
        except queue.Empty:
            frame = sys._current_frames().get(self._thread.ident or 0)
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            raise Hang(f"statement {attempt.number} after {SECONDS:g} s: {attempt.text[:2000]!r}\n{stack}") from None
