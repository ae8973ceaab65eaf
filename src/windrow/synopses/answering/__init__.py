"""Ways to answer due windows from cells, their estimated costs, and the planner that chooses among them.

All ways give the same answers. `planner` chooses by the estimates in `*_costs`, which use the constants in `costs`.
"""
