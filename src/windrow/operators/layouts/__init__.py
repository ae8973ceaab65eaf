"""How operators keep their state (DESIGN 6): by expiration, by birth, or by key."""
