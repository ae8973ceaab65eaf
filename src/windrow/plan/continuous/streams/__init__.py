"""Relation-to-stream operators around a select list, and windows on the output of queries."""
