"""Streams and queries come and go; placement says which synopsis a query joins."""
