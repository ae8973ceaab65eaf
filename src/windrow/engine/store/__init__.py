"""The durable state: the commits, and the two homes of a synopsis.

A commit is one SQLite transaction. It takes a value (`DepositCommit`, `TickCommit`, …) and returns a `CommittedState`,
which the stream installs after the transaction. Each file has one kind of commit: deposits (`deposit_commits`,
`dead_letters`), tick batches (`tick_commits`, `answers_kept`), replaced blocks (`block_moves`), and the entries of the
catalog (`catalog_entries`, `synopsis_entries`); `progress_rows` saves the progress with any of them. All SQL of the
engine is here; `Journal` has one object per kind.
"""
