"""Bounds on the values that functions make, so that no expression exhausts the memory of the JVM."""
