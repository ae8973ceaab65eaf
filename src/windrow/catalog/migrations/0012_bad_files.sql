-- Where a malformed record stands: its file, and its line there. A file that could not be read is a dead letter itself.
ALTER TABLE dead_letters ADD COLUMN file TEXT;
ALTER TABLE dead_letters ADD COLUMN line INTEGER;

-- Files that have stopped a stream. One that is removed then is skipped.
CREATE TABLE bad_files (
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE CASCADE,
  file TEXT NOT NULL,
  cause TEXT NOT NULL,
  PRIMARY KEY (stream, file)
);
