"""What plans that are due together share: results of joins, and of sub-plans with their state."""
