"""EXPLAIN: the plan of a query as text."""
