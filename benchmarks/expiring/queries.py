"""Queries 1 to 5 of Golab and Özsu, SIGMOD 2005, section 6, as plans, and as CQL for whole ticks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from sqlglot import exp

from expiring.trace import FTP, TELNET
from windrow.optimizer.execution import UPA, executed
from windrow.optimizer.facts import Facts
from windrow.optimizer.rules.match_once import match_once
from windrow.optimizer.rules.place_negation import place_negation
from windrow.optimizer.rules.reuse_distinct import reuse_distinct
from windrow.optimizer.shapes import shape_text
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Join,
    Lifetime,
    Node,
    PlanColumn,
    SemiJoin,
    StreamColumn,
    StreamWindow,
)
from windrow.plan.nodes import Attribute
from windrow.types import SqlType

BIGINT = SqlType("BIGINT")


class Making:
    """Makes the nodes of a plan over windows of one length."""

    def __init__(self, window: int):
        self._lifetime = Lifetime(window)
        self._ids = count()

    def link(self, number: int, *columns: str, protocol: int | None = None) -> StreamWindow:
        made = tuple(StreamColumn(PlanColumn(next(self._ids), name, BIGINT), name) for name in columns)
        kept = None if protocol is None else f"protocol = {protocol}"
        return StreamWindow(f"link{number}", Attribute("t", BIGINT), self._lifetime, made, kept)

    def join(self, one: Node, other: Node) -> Join:
        return Join((one, other), ((_source(one), _source(other)),))

    def without(self, one: Node, other: Node) -> SemiJoin:
        return SemiJoin(one, other, ((_source(one), _source(other)),), is_anti=True)


def _source(node: Node) -> exp.Expr:
    return exp.column(next(column.sql for column in node.schema if column.name == "src"))


def _query_1(protocol: int) -> Callable[[Making], Node]:
    def made(m: Making) -> Node:
        return m.join(*(m.link(i, "src", "dst", "length", protocol=protocol) for i in (1, 2)))

    return made


def _sources(m: Making) -> Node:
    return Distinct(m.link(1, "src"))


def _pairs(m: Making) -> Node:
    return Distinct(m.link(1, "src", "dst"))


def _query_3(m: Making) -> Node:
    return m.without(m.link(1, "src", "dst", "length"), m.link(3, "src"))


def _query_4(m: Making) -> Node:
    return m.join(Distinct(m.link(1, "src")), Distinct(m.link(2, "src")))


def _negation_above(m: Making) -> Node:
    joined = m.join(*(m.link(i, "src", "length", protocol=FTP) for i in (1, 2)))
    return m.without(joined, m.link(3, "src"))


def _negation_below(m: Making) -> Node:
    one = m.without(m.link(1, "src", "length", protocol=FTP), m.link(3, "src"))
    return m.join(one, m.link(2, "src", "length", protocol=FTP))


@dataclass(frozen=True)
class Query:
    """A query of the paper: how its plan is made, the links that it reads, and its text."""

    title: str
    made: Callable[[Making], Node]
    links: tuple[int, ...]
    text: str
    is_strict: bool = False

    def plan(self, window: int, step: int, execution: str, facts: Facts) -> ContinuousPlan:
        """The plan for a strategy. UPA has the rules that only it can use: state of DISTINCT that a join reads, and one
        row per value for negation. Where negation stands is given: both plans of Query 5 are measured."""
        plan = ContinuousPlan(self.made(Making(window)), BIGINT, step)
        for rule in (match_once, reuse_distinct) if execution == UPA else ():
            plan, _ = rule(plan, facts)
        return executed(plan, execution)

    def chosen(self, window: int, step: int, facts: Facts) -> str:
        """The shape of the plan that the optimizer chooses, and with "=" if it is the given one."""
        plan = ContinuousPlan(self.made(Making(window)), BIGINT, step)
        found, reason = place_negation(plan, facts)
        return f"{'= ' if reason is None else ''}{shape_text(found.root)}"


_JOINED = (
    "SELECT a.src, a.dst, a.length, b.dst AS to_dst, b.length AS to_length FROM link1 {w} AS a JOIN link2 {w} AS b"
    " ON a.src = b.src WHERE a.protocol = %d AND b.protocol = %d"
)
_MISSING = "NOT EXISTS (SELECT 1 FROM link3 {w} AS c WHERE c.src = a.src)"
_FTP_JOIN = (
    "SELECT a.src, a.length, b.length AS to_length FROM link1 {w} AS a JOIN link2 {w} AS b ON a.src = b.src"
    f" WHERE a.protocol = {FTP} AND b.protocol = {FTP} AND " + _MISSING
)

QUERIES = {
    "q1_ftp": Query("Query 1, ftp", _query_1(FTP), (1, 2), _JOINED % (FTP, FTP)),
    "q1_telnet": Query("Query 1, telnet", _query_1(TELNET), (1, 2), _JOINED % (TELNET, TELNET)),
    "q2_sources": Query("Query 2, sources", _sources, (1,), "SELECT DISTINCT src FROM link1 {w}"),
    "q2_pairs": Query("Query 2, pairs", _pairs, (1,), "SELECT DISTINCT src, dst FROM link1 {w}"),
    "q3": Query(
        "Query 3, negation", _query_3, (1, 3), f"SELECT src, dst, length FROM link1 {{w}} AS a WHERE {_MISSING}", True
    ),
    "q4": Query(
        "Query 4, distinct join",
        _query_4,
        (1, 2),
        "SELECT a.src FROM (SELECT DISTINCT src FROM link1 {w}) AS a"
        " JOIN (SELECT DISTINCT src FROM link2 {w}) AS b ON a.src = b.src",
    ),
    "q5_above": Query("Query 5, negation above the join", _negation_above, (1, 2, 3), _FTP_JOIN, True),
    "q5_below": Query("Query 5, negation below the join", _negation_below, (1, 2, 3), _FTP_JOIN, True),
}
