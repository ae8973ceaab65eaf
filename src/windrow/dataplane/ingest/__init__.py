"""The one Spark job of a micro-batch: decode, admit, tag with panes, pre-aggregate for every query.

`job.py` puts the job together. `admission.py` is the rule that admits rows, as Spark SQL and as NumPy, with
`promised.py` for promises. `grouping.py` is what a synopsis needs; Spark groups for it (`grouping_sets.py`, with
`packing.py`) or the driver does (`gathering.py`). `arrival.py` and `ranks.py` number rows. `deposit.py` is the result.
"""
