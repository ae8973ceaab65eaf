"""State machines that take events and give decisions. They own no clock, no thread and no I/O."""
