"""Continuous queries that change: another plan takes the place of a query's, and a query rests."""
