"""The last step of an aggregate: merged states become values."""
