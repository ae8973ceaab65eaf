"""What is durable: commits, and the two homes of a synopsis."""
