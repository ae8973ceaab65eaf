"""Ticks: they answer due windows, correct answers, answer closed groups early, and deliver."""
