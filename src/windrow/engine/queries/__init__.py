"""Creates and drops streams and queries; placement decides which synopsis a query joins."""
