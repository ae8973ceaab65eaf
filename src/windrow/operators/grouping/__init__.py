"""The parts of group-by: its accumulators, the cells of its state, and their totals at ticks."""
