"""How due windows are answered from cells: the ways, what each costs, and which one is taken.

All ways give the same answers. `planner` decides, by the estimates of `*_costs` and the measured constants in `costs`.
"""
