"""The rules that rewrite continuous plans, one per file. `optimizer/pipeline.py` has them in the order they run.

A rule is a function from a plan and what is measured of its streams to a plan with the same answers at every tick, and
the reason that EXPLAIN shows; the reason is None, and the plan the same, if there is nothing to do.
"""
