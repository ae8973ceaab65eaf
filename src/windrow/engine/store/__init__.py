"""What is durable: the commits, and the two homes of a synopsis.

A commit is one SQLite transaction. It takes a value (`DepositCommit`, `TickCommit`, …) and gives what holds after it
(`CommittedState`), which the stream installs once the transaction is through. Each file has one kind: what comes in
(`deposit_commits`, `dead_letters`), tick batches (`tick_commits`, `answers_kept`), blocks replaced (`block_moves`), the
catalog's entries (`catalog_entries`, `synopsis_entries`); `progress_rows` saves the progress with any of them. The
engine writes its SQL here alone; `Journal` holds them together.
"""
