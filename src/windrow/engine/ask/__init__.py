"""Reads from a running engine: answers, lookups, snapshot queries, dead letters, SHOW, DESCRIBE and metrics."""
