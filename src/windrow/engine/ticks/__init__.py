"""Ticks: due windows answered, late tuples corrected, groups closed early, and answers delivered."""
