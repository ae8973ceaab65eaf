"""The parts of `concurrency.py`."""
