-- Whether the input of a stream has ended and nothing was admitted since: it then holds no plan back.
ALTER TABLE streams ADD COLUMN input_ended INTEGER NOT NULL DEFAULT 0;

-- A continuous query: its statement and its progress. `saved` (JSON) has what Spark's analyser said of it, and what else
-- its plan depends on. `ticked` is its last tick, a point of its streams' window attributes; `seq` counts its commits.
-- With SLIDE, its windows hold no tuple so far from the tick `covered` on.
CREATE TABLE plans (
  name TEXT PRIMARY KEY COLLATE NOCASE,
  id INTEGER NOT NULL UNIQUE,
  statement TEXT NOT NULL,
  saved TEXT NOT NULL,
  ticked INTEGER,
  seq INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  changes INTEGER NOT NULL DEFAULT 0,
  covered INTEGER
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
  hi INTEGER,
  first_bucket INTEGER NOT NULL DEFAULT 0,
  end_bucket INTEGER NOT NULL DEFAULT 256
);
CREATE INDEX plan_parts_by_plan ON plan_parts (plan, kind, id);
