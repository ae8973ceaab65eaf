"""Cells: the accumulators of one group in one pane.

Folds merge cells, groups map key values to dense ids, chunks hold cells in memory, blocks and buckets hold them on
disk. Everything else in `synopses/` builds on this room.
"""
