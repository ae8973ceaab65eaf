"""The parts of `update_patterns.py`."""
