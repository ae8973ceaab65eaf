"""Operators over strict input, whose rows may be withdrawn before their end."""
