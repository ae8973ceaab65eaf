"""EXPLAIN as text: the plan from answers down to the stream, what it shares, and where it is computed."""

from __future__ import annotations

from windrow.cql.dialect import CQL
from windrow.engine.ask.catalog_views import (
    completeness_from,
    frontier_text,
    late_text,
    length_text,
    promised,
    punctuation_text,
    sub_streams,
    window_in_words,
)
from windrow.engine.ask.sharing_view import not_shared, sharing_of
from windrow.engine.choices.chooser import MOST_COUNT_BYTES, possible_setting
from windrow.engine.queries.placement import make_synopsis, place
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.closed_groups import answers_groups
from windrow.engine.store.homes import must_stay
from windrow.explain.decisions import holistic_line, index_lines, way_lines
from windrow.explain.having import filter_line, having_text
from windrow.optimizer.sharing.synopsis_plans import FREQUENT, SynopsisPlan
from windrow.optimizer.sharing.uses import NEW
from windrow.plan.accumulators import AggregateCall
from windrow.plan.nodes import ROW_NUM, Finalise, WindowAggregate
from windrow.settings import Settings, Size
from windrow.synopses import Ability, Home
from windrow.synopses.answering.planner import rolled_up
from windrow.synopses.cells.ranks import Ranks
from windrow.synopses.cells.sketches import SKETCHES, is_sketch
from windrow.synopses.holistic.frequent_panes import FrequentSynopsis
from windrow.types import SqlType
from windrow.windows import Cuts

ONLY_PLAN = "Candidates: this plan alone; rules choose by cost among the plans of continuous queries"
"""What EXPLAIN VERBOSE adds where there is nothing to choose."""


def explain_query(name: str, plan: Finalise, stream: StreamState, query: QueryState | None, settings: Settings) -> str:
    """One line per operator, indented by depth, then the synopsis and the stream's state."""
    kind = plan.scan.attribute.type
    state = _used_by(stream, query) if query is not None else None
    having = having_text(plan, stream, state, settings)
    lines = [f"Query {name}: periodic, EMIT EVERY WINDOW", *finalise_lines(plan, having)]
    lines += aggregate_lines(plan, window_in_words(plan))
    lines += _synopsis(plan, stream, query, settings, kind)
    lines.append(f"        Selection {plan.input.input.predicate or 'true'}   (Spark, as conditions of the aggregates)")
    how = "in order of arrival" if plan.scan.attribute.column == ROW_NUM else punctuation_text(stream)
    lines.append(f"          Scan {stream.name} by {plan.scan.attribute} ({kind}), {how}, {plan.window.context.value}")
    lines.append(f"Frontier: {frontier_text(stream) or 'nothing seen yet'}; late tuples: {late_text(stream, settings)}")
    for column, keys in sub_streams(stream).items():
        first = ", ".join(f"{key}: {point}" for key, point in sorted(keys.items(), key=lambda one: one[1])[:5])
        lines.append(f"Sub-streams of {column}, those furthest behind first ({len(keys)} live): {first}")
    for column, parts in promised(stream).items():
        first = "; ".join(f"{part}: {point}" for part, point in list(parts.items())[:5])
        lines.append(f"Promised of {column}, those furthest behind first ({len(parts)} alive): {first}")
    if stream.definition.punctuation is not None or stream.promises:
        lines.append(f"Groups: {_groups(plan)}")
    last = stream.metrics.last_preaggregate
    sketched = any(g.is_sketched for g in stream.groupings()) or any(map(is_sketch, plan.input.accumulators))
    lines.append(
        f"Pre-aggregation: {'spark, for sketches are made there' if sketched else settings.text('preaggregate')}"
        + (f", last micro-batch by {last}" if last else "")
        + "; one Spark job per micro-batch for all queries of the stream"
    )
    since = place(stream, plan, settings).since if query is None else query.since
    lines.append(f"Windows: {completeness_from(plan, since)}")
    if query is not None:
        active = "paused" if query.is_paused else "active"
        lines.append(f"State: {active if query.error is None else 'suspended: ' + query.error}")
    return "\n".join(lines)


def _groups(plan: Finalise) -> str:
    if answers_groups(plan):
        return "answered early where a punctuation closes them"
    return "answered with their window" if plan.input.keys else "none"


def finalise_lines(plan: Finalise, having: str | None = None) -> list[str]:
    """`having` replaces the text of HAVING if it is not simply compared."""
    outputs = ", ".join(f"{o.expression.sql(dialect=CQL)} AS {o.name}: {o.type}" for o in plan.outputs)
    lines = [f"  Project {outputs}   ({'columns as they are' if plan.is_plain else 'DuckDB in the driver'})"]
    if plan.limit is not None:
        lines.append(f"  Limit {plan.limit} per window")
    if plan.order:
        order = ", ".join(f"{o.expression.sql(dialect=CQL)} {'DESC' if o.descending else 'ASC'}" for o in plan.order)
        lines.append(f"  Order {order}, ties by all columns")
    if plan.having is not None:
        lines.append(f"  Having {having or plan.having.sql(dialect=CQL)}")
    return lines


def aggregate_lines(plan: Finalise, window: str) -> list[str]:
    """The line of the operator, then a line per approximate aggregate with its error bound."""
    aggregate = plan.input
    keys = ", ".join(f"k{i} = {key.sql}" for i, key in enumerate(aggregate.keys)) or "none"
    calls = ", ".join(f"a{i} = {_called(call)}" for i, call in enumerate(aggregate.aggregates)) or "none"
    values = ", ".join(f"v{i} = {value.sql}" for i, value in enumerate(aggregate.values))
    counted = f"; frequency counters of {values}" if values else ""
    lists = aggregate.frequent
    if lists is not None:
        counted += f", of closed panes the {lists.parameters[0]} most frequent"
    bounds = [
        f"      a{i}: {SKETCHES[part.kind].bound}"
        for i, call in enumerate(aggregate.aggregates)
        for _, part in call.parts
        if is_sketch(part)
    ]
    return [f"    WindowAggregate [{window}] keys: {keys}; aggregates: {calls}{counted}", *bounds, *_product(aggregate)]


def _product(aggregate: WindowAggregate) -> list[str]:
    """A line on the cells of a query with several columns of values, which multiply."""
    sets = [", ".join(value.sql for value in one) for one in aggregate.value_sets]
    if len(sets) < 2:
        return []
    cell = ", ".join(key.sql for key in aggregate.cell_keys)
    each = " and ".join(f"({one})" if ", " in one else one for one in sets)
    return [f"      kept per ({cell}), every combination; a query for each of {each} keeps their sum, not product"]


def _called(call: AggregateCall) -> str:
    constants = f" {', '.join(map(str, call.parameters))}" if call.parameters else ""
    return f"{call.function}{constants} ({call.result})"


def _synopsis(
    plan: Finalise, stream: StreamState, query: QueryState | None, settings: Settings, kind: SqlType
) -> list[str]:
    name = NEW if query is None else query.name
    if query is None:
        placement = place(stream, plan, settings)
        state = None if placement.joined is None else placement.joining(name, plan)
    else:
        state = _used_by(stream, query)
    filtered = filter_line(plan, stream, state, settings)
    filters = [] if filtered is None else [filtered]
    if state is None:
        kind_of = "partitioned" if plan.input.partition else "basic interval"
        kind_of = kind_of if plan.input.frequent is None else FrequentSynopsis.kind
        own = f"      Synopsis {kind_of}, of its own, window edges {_cuts(plan.window.cuts(), kind)}"
        return [*filters, own, *_apart(stream, make_synopsis(0, name, plan, place(stream, plan, settings)), settings)]
    sharing = sharing_of(name, stream.use_of(state.plan, state.since, settings.integer("cut_factor")), settings)
    rules = ", ".join(one for one in sharing.rules if one not in ("SS4", "CS7", "CS8"))
    shared = f"shared with {sharing.others} other quer{'y' if sharing.others == 1 else 'ies'} ({rules})"
    shared = shared if sharing.others else "not shared"
    synopsis = state.synopsis
    kept = _many(len(state.plan.accumulators), "accumulator")
    lines = [
        f"      Synopsis {state.plan.id}: {_kind(state)}, home: {_home(stream, state)}, {shared}",
        f"        window edges {_cuts(state.plan.schedule.current, kind)}; {kept}; {_held(state)}; {synopsis.content}; "
        f"{synopsis.nbytes:,} bytes{' in the driver' if synopsis.home is Home.SPARK else ''}",
    ]
    by = ", ".join(one for one in sharing.rules if one in ("SS4", "CS7"))
    lines += [f"        {by}: {one}" for one in sharing.derived]
    lines += [f"        CS8: the answers of {sharing.answers_of}"] if sharing.answers_of is not None else []
    lines += _apart(stream, state.plan, settings)
    lines += index_lines(synopsis, settings) + way_lines(synopsis)
    lines += _holistic(plan, state, name)
    return filters + lines + ([] if synopsis.ranks is None else [_ranks(synopsis.ranks)])


def _holistic(plan: Finalise, state: SynopsisState, name: str) -> list[str]:
    """The line on how holistic aggregates are answered. If the driver cannot read cells, rolling up is the only way."""
    why = state.synopsis.cannot(Ability.READ)
    decision = state.holistic.decisions.get(name)
    decision = decision if why is None else rolled_up(why)
    line = holistic_line(plan.input, decision)
    return [] if line is None else [line]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _held(state: SynopsisState) -> str:
    """The number of groups, or its upper bound in the Spark home, where only each bucket knows its own."""
    count = state.synopsis.group_count
    groups = f"{count:,} values in groups" if state.plan.values else _many(count, "group")
    return f"at most {groups}" if state.synopsis.home is Home.SPARK else groups


def _apart(stream: StreamState, plan: SynopsisPlan, settings: Settings) -> list[str]:
    """The line on why the query uses no other synopsis of the stream; nothing if there is none."""
    reason = not_shared(stream, plan, settings)
    return [] if reason is None else [f"        apart from synopsis {reason}"]


def _kind(state: SynopsisState) -> str:
    """The kind of a synopsis, in either home."""
    return FrequentSynopsis.kind if state.plan.style[0] == FREQUENT else state.synopsis.kind


def _home(stream: StreamState, state: SynopsisState) -> str:
    """The home of a synopsis, and why it cannot move to Spark, if it cannot."""
    if state.synopsis.home is Home.SPARK:
        return f"Spark, blocks in {state.synopsis.buckets} buckets, one job for all its queries that are due"
    if not state.plan.queries:
        return "driver"
    stays = must_stay(stream.definition, state.synopsis, bool(stream.promises))
    return "driver" if stays is None else f"driver (whatever its size: {stays})"


def _ranks(ranks: Ranks) -> str:
    """The line on how tuples are ranked: Spark gets the counts so far if it groups, unless they are too large."""
    too_many = possible_setting("spark", ranks.nbytes) != "spark"
    where = (
        f"in the driver: above {Size(MOST_COUNT_BYTES)}" if too_many else "by Spark where it groups, else in the driver"
    )
    return f"        ranks counted on from {ranks.nbytes:,} bytes of counts, {where}"


def _used_by(stream: StreamState, query: QueryState) -> SynopsisState | None:
    for state in stream.synopses.values():
        if any(name == query.name for name, _ in state.plan.queries):
            return state
    return None


def _cuts(cuts: Cuts, kind: SqlType) -> str:
    return " and ".join(
        f"every {length_text(period, kind)}" + (f" from {length_text(phase, kind)}" if phase else "")
        for period, phase in cuts.progressions
    )
