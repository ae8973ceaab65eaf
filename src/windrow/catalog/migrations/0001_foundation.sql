CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);

-- A stream: its statement, and its progress. Points are int64 of the window attribute.
CREATE TABLE streams (
  name TEXT PRIMARY KEY COLLATE NOCASE,
  id INTEGER NOT NULL UNIQUE,
  statement TEXT NOT NULL,
  last_batch INTEGER NOT NULL DEFAULT -1,
  least INTEGER,
  greatest INTEGER,
  promised INTEGER,
  ticked INTEGER,
  tick_seq INTEGER NOT NULL DEFAULT 0,
  admitted INTEGER NOT NULL DEFAULT 0,
  late INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0
);

-- A synopsis: grouping keys, the schedule of its cuts, and the point below which its cells are gone.
CREATE TABLE synopses (
  id INTEGER PRIMARY KEY,
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE CASCADE,
  keys TEXT NOT NULL,
  schedule TEXT NOT NULL,
  kept_from INTEGER
);

-- Since which point a synopsis has kept an accumulator (NULL: since the stream began).
CREATE TABLE synopsis_accumulators (
  synopsis INTEGER NOT NULL REFERENCES synopses (id) ON DELETE CASCADE,
  accumulator TEXT NOT NULL,
  since INTEGER,
  PRIMARY KEY (synopsis, accumulator)
);

CREATE TABLE queries (
  name TEXT PRIMARY KEY COLLATE NOCASE,
  id INTEGER NOT NULL UNIQUE,
  statement TEXT NOT NULL,
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE RESTRICT,
  synopsis INTEGER NOT NULL REFERENCES synopses (id) ON DELETE RESTRICT,
  since INTEGER,
  last_end INTEGER,
  error TEXT,
  answers INTEGER NOT NULL DEFAULT 0,
  answer_rows INTEGER NOT NULL DEFAULT 0,
  overflows INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE blocks (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  lo INTEGER,
  hi INTEGER,
  rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  refs INTEGER NOT NULL CHECK (refs >= 0)
);
CREATE INDEX blocks_by_owner ON blocks (owner, id);

-- Retained answers: a part of a block per query and tick batch.
CREATE TABLE answers (
  id INTEGER PRIMARY KEY,
  query INTEGER NOT NULL,
  block INTEGER NOT NULL REFERENCES blocks (id),
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  first_end INTEGER NOT NULL,
  last_end INTEGER NOT NULL
);
CREATE INDEX answers_by_query ON answers (query, id);

-- Staged for a sink by a tick and not yet known to be published.
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY,
  query INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  entry TEXT NOT NULL
);

CREATE TABLE dead_letters (
  id INTEGER PRIMARY KEY,
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE CASCADE,
  batch INTEGER NOT NULL,
  reason TEXT NOT NULL,
  record TEXT,
  point INTEGER,
  late_by INTEGER,
  count INTEGER NOT NULL
);
CREATE INDEX dead_letters_by_stream ON dead_letters (stream, id);
CREATE TABLE dead_letter_counts (
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE CASCADE,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (stream, reason)
);

CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
