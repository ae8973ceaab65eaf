"""MEDIAN, QUANTILE, COUNT(DISTINCT) and TOP_K, from counters per value or by selection from sorted panes."""
