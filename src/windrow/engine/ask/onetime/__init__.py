"""One-time queries over windows of streams, alone or with tables, views, answers, changes and dead letters."""
