"""What continuous queries that are due together share: joins over windows, and sub-plans with their state."""
