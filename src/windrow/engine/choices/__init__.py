"""Choices that a running stream makes anew and remembers: where to group, index or none, selection, filters.

What each way costs is decided in `synopses/answering/planner.py`; EXPLAIN shows what is remembered here.
"""
