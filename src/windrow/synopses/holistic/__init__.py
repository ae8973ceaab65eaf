"""MEDIAN, QUANTILE, COUNT(DISTINCT) and TOP_K, from counters per value or by selection from sorted panes.

`frequent_panes` is the synopsis of FREQUENT_ITEMS.
"""
