-- The columns of a source's data: declared ones that a record has had (`files` is NULL), and those that no CREATE STREAM
-- declares, with the number of files that have them and the first of these. The name '' says that there are more.
CREATE TABLE source_columns (
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  type TEXT,
  files INTEGER,
  first_file TEXT,
  PRIMARY KEY (stream, name)
);
