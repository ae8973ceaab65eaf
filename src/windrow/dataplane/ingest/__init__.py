"""The one Spark job of a micro-batch: decode, admit, tag with panes, pre-aggregate for every query."""
