"""EXISTS and IN with sub-queries, in WHERE."""
