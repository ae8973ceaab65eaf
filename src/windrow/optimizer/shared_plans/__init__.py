"""What continuous plans of different queries have in common: identical sub-plans, and joins under other selections."""
