"""HAVING over many groups: filters over closed panes that name the groups which may pass."""
