"""A micro-batch's way in: one Spark job, then one commit."""
