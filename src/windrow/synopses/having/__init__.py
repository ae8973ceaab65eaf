"""Filters over closed panes that find the groups which may pass HAVING."""
