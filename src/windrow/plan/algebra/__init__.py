"""The algebra of continuous plans: typed, immutable nodes over sets of lifetimes.

It stands beside the periodic chain of `plan/nodes.py`; a query is bound to one or the other."""
