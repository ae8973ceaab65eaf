-- A window store: tuples of a stream for continuous plans, with their points on one axis. `spec` (JSON): the keys that
-- bucket it, and since which point it keeps each column and each selection of rows (null: since the stream began).
-- Rows below `kept_from` have expired. Its files are the blocks of the owner stores/<id>.
CREATE TABLE window_stores (
  id INTEGER PRIMARY KEY,
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE RESTRICT,
  axis TEXT NOT NULL,
  spec TEXT NOT NULL,
  kept_from INTEGER
);

-- A reader of a store: the columns and the predicate that it reads (JSON), the point `since` which its rows are
-- complete (NULL: since the stream began), the point below which it needs none any more (NULL: it needs all), the
-- length of what it reads at most (NULL: unknown), and why Spark could not evaluate its columns.
CREATE TABLE store_readers (
  name TEXT PRIMARY KEY,
  store INTEGER NOT NULL REFERENCES window_stores (id) ON DELETE CASCADE,
  columns TEXT NOT NULL,
  since INTEGER,
  needs_from INTEGER,
  span INTEGER,
  error TEXT
);
