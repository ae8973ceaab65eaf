"""Expressions over aggregates as DuckDB SQL that gives Spark's results."""
