"""A plan takes the place of another and keeps of its state what it can use."""
