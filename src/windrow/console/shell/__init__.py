"""The interactive shell of `windrow sql`: what is typed, its completion, its commands and its answers."""
