"""Indexes over a sequence of cells (Arasu and Widom, VLDB 2004): running, interval and landmark synopses.

`pane_index` puts one over the closed panes of a basic interval synopsis; `answering/indexing` keeps it while it pays.
"""
