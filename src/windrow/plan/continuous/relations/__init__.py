"""Tables in FROM."""
