"""Cells: what one pane knows of one group.

Folds say how cells are merged, groups how key values become dense ids, chunks how cells lie in memory, blocks and
buckets how they lie on disk. Everything else in `synopses/` is built on this room.
"""
