"""Answers as Arrow tables: how they are finished, revised, and read back from Parquet."""
