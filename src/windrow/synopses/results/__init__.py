"""The last step of an aggregate: it turns merged states into values."""
