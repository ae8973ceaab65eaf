"""Answers as Arrow tables: finished, revised, and read back from Parquet."""
