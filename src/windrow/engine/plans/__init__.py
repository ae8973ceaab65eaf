"""Continuous queries: their plans in memory, when they are due, what a tick does, and how they come and go."""
