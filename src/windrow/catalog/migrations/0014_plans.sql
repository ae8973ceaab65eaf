-- Whether the input of a stream has ended and nothing was admitted since: it then holds no plan back.
ALTER TABLE streams ADD COLUMN has_ended INTEGER NOT NULL DEFAULT 0;

-- A continuous query: its statement and its progress. Points are int64 of its streams' window attributes. `types` is what
-- Spark's analyser said of it. It sees tuples from `since` on (NULL: all). `ticked` is its last tick, `seq` counts commits.
CREATE TABLE plans (
  name TEXT PRIMARY KEY COLLATE NOCASE,
  id INTEGER NOT NULL UNIQUE,
  statement TEXT NOT NULL,
  types TEXT,
  since INTEGER,
  ticked INTEGER,
  seq INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  changes INTEGER NOT NULL DEFAULT 0,
  last_tick INTEGER
);

-- The streams that a plan reads.
CREATE TABLE plan_streams (
  plan INTEGER NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE RESTRICT,
  PRIMARY KEY (plan, stream)
);

-- Parts of blocks that a plan's commits wrote: of the state of its operators (`kind` 'state', by the operator's place in
-- the plan and its layout), changes ('changes'), the view as of a commit ('view'), and answers to windows ('answers').
CREATE TABLE plan_parts (
  id INTEGER PRIMARY KEY,
  plan INTEGER NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  seq INTEGER NOT NULL,
  operator TEXT,
  layout TEXT,
  block INTEGER NOT NULL REFERENCES blocks (id),
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  lo INTEGER,
  hi INTEGER
);
CREATE INDEX plan_parts_by_plan ON plan_parts (plan, kind, id);
