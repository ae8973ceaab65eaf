"""Runs an open state directory: recovery, inputs, statements, and streams in the background.

`beginning` takes the lock and starts Spark, `opening` owns the open state; `inputs`, `stream_time`, `running` and
`statements` share it, and import each other only in this order. `runner` is one Structured Streaming query, `tick_loop`
the thread that answers, `lifecycle` the phases.
"""
