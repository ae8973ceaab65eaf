"""SHOW SHARING, and the sharing part of EXPLAIN. Both print the verdicts of the sharing rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from windrow.engine.state import StreamState
from windrow.optimizer.sharing.derivations import Derivation
from windrow.optimizer.sharing.rules import RULES, may_join, verdict_of
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.optimizer.sharing.uses import Applicant, SynopsisUse
from windrow.optimizer.sharing.verdicts import Verdict
from windrow.settings import Settings


@dataclass(frozen=True)
class Sharing:
    """What a query shares: its synopsis, the number of other users, the verdicts of the rules, the accumulators it
    derives, and the query whose answers it takes."""

    synopsis: int | None = None
    others: int = 0
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    derived: tuple[Derivation, ...] = ()
    answers_of: str | None = None

    @property
    def rules(self) -> list[str]:
        """The names of the rules that hold."""
        return [name for name, verdict in self.verdicts.items() if verdict.holds]


def sharing_of(name: str, use: SynopsisUse, settings: Settings) -> Sharing:
    """What a user of a synopsis shares. State is shared when a query is created, by rules that may be off by now."""
    query, off = use.user(name), settings.rules_off
    verdicts = {one.name: verdict_of(one.name, query, use, () if one.is_of_state else off) for one in RULES}
    leader = use.leader(query) if verdicts["CS8"].holds else None
    return Sharing(use.plan.id, use.others(query), verdicts, use.derived(query), leader)


MOST_COMPARED = 100
"""The most other synopses that a synopsis is compared with."""

SINCE_CHANGED = "queries or settings were different when it was created"


def not_shared(stream: StreamState, plan: SynopsisPlan, settings: Settings) -> str | None:
    """Why the queries of a synopsis do not use the stream's other synopses: reasons with the numbers of those synopses.
    None if there are no others. A plan with the number 0 is that of a query that does not exist yet."""
    others = [state.plan for state in stream.synopses.values() if state.plan.id != plan.id and state.plan.queries]
    factor, reasons = settings.integer("cut_factor"), dict[str, list[int]]()
    for other in others[:MOST_COMPARED]:
        came, there = (other, plan) if 0 < plan.id < other.id else (plan, other)
        name, first = came.queries[0]
        use = stream.use_of(there, {}, factor)
        verdict = may_join(Applicant(name, first, whole=came.need), use, settings.rules_off)
        reasons.setdefault(verdict.reason or SINCE_CHANGED, []).append(other.id)
    texts = [f"{_numbers(ids)}: {why}" for why, ids in reasons.items()]
    return "; ".join(texts + (["and more"] if len(others) > MOST_COMPARED else [])) or None


def _numbers(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def sharing_table(streams: Sequence[StreamState], settings: Settings) -> pa.Table:
    """SHOW SHARING: one row per query."""
    names = ("name", "stream", "synopsis", "home", "shared_with", "rules", "derived", "answers_of", "apart_from")
    rows = []
    for stream in streams:
        shared: dict[str, Sharing] = {}
        homes: dict[int | None, str] = {}
        reasons: dict[int | None, str | None] = {}
        for state in stream.synopses.values():
            plan = state.plan
            if not plan.queries:
                continue
            use = stream.use_of(plan, state.since, settings.integer("cut_factor"))
            shared |= {name: sharing_of(name, use, settings) for name, _ in plan.queries}
            reasons[plan.id] = not_shared(stream, plan, settings)
            homes[plan.id] = state.synopsis.home.value
        for name in stream.queries:
            one = shared.get(name, Sharing())  # a suspended query has no synopsis
            derived = "; ".join(map(str, one.derived)) or None
            rules = ", ".join(one.rules) or None
            where = (one.synopsis, homes.get(one.synopsis))
            rows.append(
                (name, stream.name, *where, one.others, rules, derived, one.answers_of, reasons.get(one.synopsis))
            )
    types = [pa.int64() if name in ("synopsis", "shared_with") else pa.string() for name in names]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})
