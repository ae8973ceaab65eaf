"""Statements about tables: CREATE TABLE, and those that change rows."""
