"""The lifetime algebra: operators as pure functions over Arrow tables, without pyspark.

An operator takes the state as of the last tick and the new rows of all due ticks, and gives the new state and its
output."""
