"""Tables in continuous plans: their rows at every tick, and joins as of a row's own tick."""
