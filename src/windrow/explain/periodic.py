"""The chain of a periodic query as boxes, to be drawn; `text.py` has it as text with all details."""

from __future__ import annotations

from windrow.cql.dialect import CQL
from windrow.engine.ask.catalog_views import punctuation_text, window_in_words
from windrow.engine.state import QueryState, StreamState
from windrow.explain.names import plain_sql
from windrow.explain.tree import ExplainedPlan, PlanBox, count_text, seconds_text
from windrow.plan.nodes import Finalise


def periodic_chain(name: str, plan: Finalise, stream: StreamState) -> ExplainedPlan:
    """The operators from the answers down to the stream."""
    aggregate, attribute = plan.input, plan.scan.attribute
    names = {f"k{i}": plain_sql(key.sql) for i, key in enumerate(aggregate.keys)}
    box = PlanBox("Stream", f"{stream.name} by {attribute}", (("keeps", punctuation_text(stream)),))
    if aggregate.input.predicate is not None:
        box = PlanBox("Filter", plain_sql(aggregate.input.predicate), (("keeps", "Spark, on arrival"),), (box,))
    keys = f"by {', '.join(names.values())}: " if names else ""
    calls = ", ".join(f"a{i} = {call.function}" for i, call in enumerate(aggregate.aggregates)) or "groups"
    notes = (("keeps", "partial aggregates per pane and group"),)
    box = PlanBox("WindowAggregate", f"[{window_in_words(plan)}] {keys}{calls}", notes, (box,))
    if plan.having is not None:
        box = PlanBox("Having", _named(plan.having.sql(dialect=CQL), names), (), (box,))
    if plan.order or plan.limit is not None:
        order = ", ".join(
            _named(one.expression.sql(dialect=CQL), names) + (" DESC" if one.descending else "") for one in plan.order
        )
        limit = "" if plan.limit is None else f"LIMIT {plan.limit}"
        box = PlanBox("TopRows", f"{'ORDER BY ' if order else ''}{order} {limit}".strip(), (), (box,))
    items = [(_named(one.expression.sql(dialect=CQL), names), one.name) for one in plan.outputs]
    shown = ", ".join(text if text == name else f"{text} AS {name}" for text, name in items)
    box = PlanBox("Project", shown, (), (box,))
    return ExplainedPlan(name, f"Query {name}: periodic, EMIT EVERY WINDOW", box)


def _named(text: str, names: dict[str, str]) -> str:
    return names.get(text, text)


def measured_line(stream: StreamState, query: QueryState) -> str:
    """What a periodic query and its stream have done since the state directory was opened."""
    mine, all_ = query.metrics, stream.metrics
    batches = "1 micro-batch" if all_.batches == 1 else f"{all_.batches:,} micro-batches"
    return (
        f"Since opening: {count_text(mine.windows, 'window')} answered with {count_text(mine.rows, 'row')}; "
        f"stream {stream.name}, for all its queries: {batches}, {count_text(all_.rows, 'row')}, "
        f"Spark jobs {seconds_text(all_.job_s)}, taking in {seconds_text(all_.apply_s)}, "
        f"ticks {seconds_text(all_.tick_s)}"
    )
