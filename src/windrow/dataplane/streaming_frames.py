"""The columns of a user's streaming DataFrame as Windrow's types."""

from __future__ import annotations

from typing import Any

from windrow.catalog.definitions import StreamDef
from windrow.cql.intervals import format_interval
from windrow.dataplane.session import check_session
from windrow.errors import SourceError
from windrow.types import scalar_type


def frame_columns(df: Any) -> list[tuple[str, str]]:
    """(name, type) of every column. Raises SourceError if the DataFrame cannot be a stream."""
    if not getattr(df, "isStreaming", False):
        raise SourceError("a stream is made of a streaming DataFrame", remedy="Read it with spark.readStream.")
    check_session(df.sparkSession)
    out = []
    for field in df.schema.fields:
        name = str(field.dataType.simpleString()).upper()
        try:
            out.append((field.name, scalar_type(name).name))
        except ValueError:
            raise SourceError(
                f"column '{field.name}' is {name}, which a stream cannot have", remedy="Select scalar columns only."
            ) from None
    return out


def attaching(stream: StreamDef) -> str:
    """The call that attaches a DataFrame to a stream that `wr.stream` made."""
    punctuated = stream.punctuated[0]
    slack = format_interval(punctuated.slack).lower() if punctuated.type.is_timestamp else punctuated.slack
    given = f", slack={slack!r}" if punctuated.slack else ""
    return f"wr.stream({stream.name!r}, df, timestamp={stream.attribute!r}{given})"
