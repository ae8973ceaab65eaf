"""The kinds of synopses: classes that keep cells and answer windows from them.

`basic_interval` keeps cells per pane in the driver, `stored` is the driver's view of a synopsis in the Spark home,
`partitioned` serves windows that count the rows of each partition, `frequent_panes` prunes panes to top-k lists,
`buffer` keeps whole tuples for comparison.
"""
