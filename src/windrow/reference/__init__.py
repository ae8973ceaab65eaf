"""Plain versions of the papers' algorithms, one per file.

Tests compare the engine's implementations with them, and benchmarks measure some of them. Nothing else may import this
room (`scripts/check_layers.py`).
"""
