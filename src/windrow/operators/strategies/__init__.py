"""Whole plans run one way (Golab's dissertation, section 2.3.3): by negative tuples, or directly."""
