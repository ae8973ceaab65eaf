"""Takes micro-batches in: one Spark job, then one commit."""
