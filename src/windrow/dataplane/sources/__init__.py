"""Sources: a stream's rows as a streaming DataFrame, one source per file."""

from windrow.dataplane.sources.registry import SOURCES, Source, open_source

__all__ = ["SOURCES", "Source", "open_source"]
