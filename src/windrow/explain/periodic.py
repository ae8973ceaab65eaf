"""The chain of a periodic query as boxes, to be drawn; `text.py` has it as text with all details."""

from __future__ import annotations

from windrow.engine.ask.catalog_views import punctuation_text, window_in_words
from windrow.engine.state import QueryState, StreamState
from windrow.explain.names import plain_sql, with_names
from windrow.explain.tree import ExplainedPlan, PlanBox, count_text, seconds_text
from windrow.plan.accumulators import AggregateCall
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.nodes import Finalise


def periodic_chain(name: str, plan: Finalise, stream: StreamState) -> ExplainedPlan:
    """The operators from the answers down to the stream."""
    aggregate, attribute = plan.input, plan.scan.attribute
    keys = {f"k{i}": plain_sql(key.sql) for i, key in enumerate(aggregate.keys)}
    calls = {f"a{i}": _called(call) for i, call in enumerate(aggregate.aggregates)}
    names = keys | calls
    box = PlanBox("Stream", f"{stream.name} by {attribute}", (("reads", punctuation_text(stream)),))
    if aggregate.input.predicate is not None:
        box = PlanBox("Filter", plain_sql(aggregate.input.predicate), (("reads", "in Spark, on arrival"),), (box,))
    of = (f"by {', '.join(keys.values())}: " if keys else "") + ", ".join(calls.values())
    notes = (("keeps", "partial aggregates of each group and pane"),)
    box = PlanBox("WindowAggregate", f"[{window_in_words(plan)}] {of.removesuffix(': ')}", notes, (box,))
    if plan.having is not None:
        box = PlanBox("Having", with_names(plan.having, names), (), (box,))
    if plan.order or plan.limit is not None:
        order = ", ".join(with_names(o.expression, names) + (" DESC" if o.descending else "") for o in plan.order)
        limit = "" if plan.limit is None else f"LIMIT {plan.limit}"
        box = PlanBox("TopRows", f"{'ORDER BY ' if order else ''}{order} {limit}".strip(), (), (box,))
    items = [(with_names(one.expression, names), one.name) for one in plan.outputs]
    shown = ", ".join(text if text == name else f"{text} AS {name}" for text, name in items)
    return ExplainedPlan(name, f"Query {name}: periodic, EMIT EVERY WINDOW", PlanBox("Project", shown, (), (box,)))


def _called(call: AggregateCall) -> str:
    """An aggregate about as it was written."""
    values = [value.sql for value in call.values] or [part.arg for _, part in call.parts if part.arg is not None][:1]
    if call.function == COUNT_DISTINCT:
        return f"COUNT(DISTINCT {', '.join(map(plain_sql, values))})"
    arguments = [plain_sql(value) for value in values] or ["*"]
    return f"{call.function}({', '.join([*arguments, *map(str, call.parameters)])})"


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
