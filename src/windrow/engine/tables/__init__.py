"""Tables: their rows, the statements that change them, and their commits."""
