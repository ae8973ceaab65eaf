"""What isolates one-time queries from window updates."""
