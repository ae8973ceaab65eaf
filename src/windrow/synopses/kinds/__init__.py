"""The kinds of synopses: the classes that keep cells and answer windows from them.

`basic_interval` keeps cells per pane in the driver, `stored` is the driver's view of a synopsis in the Spark home,
`partitioned` serves windows that count the rows of each partition, `buffer` keeps whole tuples for comparison. That of
FREQUENT_ITEMS is in `holistic/`.
"""
