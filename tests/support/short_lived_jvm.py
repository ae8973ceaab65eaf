"""Options for a JVM that lives for seconds, as those of children that are killed.

Such a JVM spends most of its life loading Spark's classes; `make setup` has written an archive of them.
"""

ROUGH = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Quick, rough compilation costs a short life least."""
