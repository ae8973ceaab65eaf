"""SHOW CREATE, and what CREATE STREAM says about a new stream."""

from __future__ import annotations

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.cql.printer import to_script
from windrow.dataplane.sources.registry import DATAFRAME
from windrow.dataplane.streaming_frames import attaching
from windrow.engine.plans.manager import PlanManager
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.tables.manager import TableManager

NOTE = "note: "
"""How a line of a statement's result begins that says what else the user should know."""


def show_create(manager: QueryManager, plans: PlanManager, tables: TableManager, what: str, name: str) -> str:
    """The statement that creates a stream, query or table as it is, for `create stream` and so on."""
    if what == "create table":
        return to_script(tables.table(name).definition.statement)
    if what == "create query":
        return to_script(manager.query(name)[1].statement if manager.has_query(name) else plans.query(name).statement)
    stream = manager.stream(name)
    plan, definition = plans.behind(stream), stream.definition
    if plan is not None and plan.derived is not None:
        return to_script(plan.derived)
    text = to_script(definition.statement)
    if definition.statement.source != DATAFRAME:
        return text
    return f"-- Its rows come from a DataFrame. In Python: {attaching(definition)}\n{text}"


def punctuation_notes(definition: StreamDef) -> tuple[str, ...]:
    """What the absence of PUNCTUATE means for a new stream; nothing if there is one."""
    if definition.punctuated:
        return ()
    column = definition.attribute
    if column is None:
        return (
            "no TIMESTAMP BY and no PUNCTUATE, so only windows of rows ([ROWS …]) can be over this stream. For"
            " windows of time add TIMESTAMP BY column PUNCTUATE WITH SLACK 5 SECONDS",
        )
    slack, name = "5 SECONDS" if definition.attribute_type.is_timestamp else "100", quote_name(column)
    return (
        f"no PUNCTUATE, so nothing says up to which {name} the stream is complete: windows over {name} are"
        f" refused, and only windows of rows ([ROWS …]) can be over this stream. Add PUNCTUATE ORDERED if {name} never"
        f" goes back, or PUNCTUATE WITH SLACK {slack} if tuples come up to that much late",
    )
