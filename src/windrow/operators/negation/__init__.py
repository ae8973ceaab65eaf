"""Operators whose results may be withdrawn: negation, outer joins, set operations and count-based windows."""
