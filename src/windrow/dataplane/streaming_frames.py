"""The columns of a user's streaming DataFrame as Windrow's types."""

from __future__ import annotations

from typing import Any

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
