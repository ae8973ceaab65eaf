"""Scheduling of periodic queries by definition (Golab's dissertation, section 8.4)."""
