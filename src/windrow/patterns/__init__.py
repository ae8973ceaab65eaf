"""Update patterns: the lattice, and how they spread through a continuous plan (Golab's dissertation, chapter 3)."""

from windrow.patterns.lattice import UpdatePattern
from windrow.patterns.propagation import Annotated, EdgePatterns, annotate, annotated_over, why

__all__ = ["Annotated", "EdgePatterns", "UpdatePattern", "annotate", "annotated_over", "why"]
