"""Questions to a running engine: lookups, snapshot queries, SHOW, DESCRIBE and metrics."""
