"""The FROM of a SELECT for many ticks at once: its sources are joined within a tick.

Inner joins need the same tick in WHERE. Of an outer join one side may be NULL, its tick too: there the same tick is
part of ON, or of USING, and the tick of a row is that of a side that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.errors import UnsupportedError

COMMON_TICK = "__u"


@dataclass(frozen=True)
class TickedSource:
    """A source as a statement, its alias, the names that it carries, and which of them is the tick. `meets`: the
    condition on which the rows of a table that is NON RETROACTIVE, which have no tick, are seen."""

    text: str
    alias: str
    carried: tuple[str, ...]
    tick: str
    meets: str | None = None


@dataclass(frozen=True)
class TickedFrom:
    """A FROM clause; the tick of its rows, as an expression; the conditions that WHERE needs; and the names that it
    carries, by source, without those that a semi-join hides."""

    text: str
    tick: exp.Expr
    same_tick: tuple[str, ...]
    carried: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def tick_text(self) -> str:
        return str(self.tick.sql(dialect="spark"))

    @property
    def hidden(self) -> list[str]:
        """What `*` leaves out."""
        return list(dict.fromkeys(name for _, names in self.carried for name in names))


def joined(joins: Sequence[exp.Join], sources: Sequence[TickedSource]) -> TickedFrom:
    """Join the first source with the others."""
    if all(_is_inner(join) for join in joins):
        return _inner(joins, sources)
    using = [bool(join.args.get("using")) for join in joins]
    if any(using) and not all(using):
        raise UnsupportedError("the oracle evaluates outer joins with ON, or with USING, not both in one FROM")
    return _using(joins, sources) if any(using) else _on(joins, sources)


def _is_inner(join: exp.Join) -> bool:
    return not join.side and join.kind in ("", "INNER", "CROSS")


def _hides(join: exp.Join) -> bool:
    return join.kind in ("SEMI", "ANTI")


def _inner(joins: Sequence[exp.Join], sources: Sequence[TickedSource]) -> TickedFrom:
    text = _table(sources[0])
    for join, source in zip(joins, sources[1:], strict=True):
        on = join.args.get("on")
        if join.args.get("using"):
            text += f"\nJOIN {_table(source)} USING ({_names(join)})"
        else:
            text += f"\nJOIN {_table(source)} ON {_sql(on)}" if on is not None else f"\nCROSS JOIN {_table(source)}"
    first = sources[0].tick
    same = tuple(other.meets or f"`{first}` = `{other.tick}`" for other in sources[1:])
    return TickedFrom(text, _column(first), same, tuple((one.alias, one.carried) for one in sources))


def _on(joins: Sequence[exp.Join], sources: Sequence[TickedSource]) -> TickedFrom:
    text, seen = _table(sources[0]), [sources[0]]
    for join, source in zip(joins, sources[1:], strict=True):
        on = join.args.get("on")
        same = source.meets or f"{_sql(_tick(seen))} = `{source.tick}`"
        conditions = [*([f"({_sql(on)})"] if on is not None else []), same]
        text += f"\n{_words(join)} {_table(source)} ON {' AND '.join(conditions)}"
        seen += [] if _hides(join) else [source]
    return TickedFrom(text, _tick(seen), (), tuple((one.alias, one.carried) for one in seen))


def _using(joins: Sequence[exp.Join], sources: Sequence[TickedSource]) -> TickedFrom:
    """The tick has the same name in all sources, and is a column of each USING."""
    if any(source.meets is not None for source in sources):
        raise UnsupportedError("the oracle joins a table that is NON RETROACTIVE with ON")
    plain = [_with_common_tick(source) for source in sources]
    text, seen = _table(plain[0]), [plain[0]]
    for join, source in zip(joins, plain[1:], strict=True):
        text += f"\n{_words(join)} {_table(source)} USING ({_names(join)}, `{COMMON_TICK}`)"
        seen += [] if _hides(join) else [source]
    return TickedFrom(text, _column(COMMON_TICK), (), tuple((one.alias, one.carried) for one in seen))


def _with_common_tick(source: TickedSource) -> TickedSource:
    dropped = ", ".join(f"`{name}`" for name in source.carried)
    text = f"SELECT * EXCEPT ({dropped}), `{source.tick}` AS `{COMMON_TICK}` FROM ({source.text})"
    return TickedSource(text, source.alias, (COMMON_TICK,), COMMON_TICK)


def _words(join: exp.Join) -> str:
    if _is_inner(join):
        return "JOIN"
    return f"LEFT {join.kind} JOIN" if _hides(join) else f"{join.side} OUTER JOIN"


def _tick(sources: Sequence[TickedSource]) -> exp.Expr:
    first, *rest = (_column(source.tick) for source in sources if source.meets is None)
    return exp.Coalesce(this=first, expressions=rest) if rest else first


def _table(source: TickedSource) -> str:
    return f"({source.text}) AS `{source.alias}`"


def _names(join: exp.Join) -> str:
    return ", ".join(f"`{name.name}`" for name in join.args["using"])


def _column(name: str) -> exp.Expr:
    return exp.column(name, quoted=True)


def _sql(tree: exp.Expr) -> str:
    return str(tree.sql(dialect="spark"))
