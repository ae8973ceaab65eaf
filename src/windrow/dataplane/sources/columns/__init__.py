"""What columns the files of a stream have, and whether they are the declared ones."""
