"""What is kept of streams for continuous plans: window stores, their readers and their files."""
