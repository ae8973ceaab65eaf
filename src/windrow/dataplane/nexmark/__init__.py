"""The events of NEXMark, and the streaming source that Spark runs for them. Python processes of Spark import this room,
so it imports none of the others."""
