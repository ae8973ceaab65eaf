"""What runs: opening and recovery, Structured Streaming queries, the tick thread, and what may run when."""
