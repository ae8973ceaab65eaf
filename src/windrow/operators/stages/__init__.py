"""Plans cut into stages, and their state by ranges of buckets: what runs in parallel, and where rows belong."""
