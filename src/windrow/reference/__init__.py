"""Plain versions of algorithms, one file each, named after the idea of their paper.

Tests hold the engine's own implementations equal to these, and benchmarks measure some of them. Nothing else imports
this room (`scripts/check_layers.py`).
"""
