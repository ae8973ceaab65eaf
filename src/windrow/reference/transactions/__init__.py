"""Concurrency control of sliding windows by definition (Golab's dissertation, chapter 7)."""
