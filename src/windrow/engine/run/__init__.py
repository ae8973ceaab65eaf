"""What runs: a state directory opened and recovered, what comes in, statements, and the streams in the background.

`opening` owns what is open; `inputs`, `stream_time`, `running` and `statements` share it, each importing only those
before it.
`runner` is one Structured Streaming query, `tick_loop` the thread that answers, `lifecycle` what may run when.
"""
