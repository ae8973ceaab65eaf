-- A table (the language's word; `relations` here): its statement, and how many changes it has seen.
CREATE TABLE relations (
  name TEXT PRIMARY KEY COLLATE NOCASE,
  id INTEGER NOT NULL UNIQUE,
  statement TEXT NOT NULL,
  seq INTEGER NOT NULL DEFAULT 0
);

-- Blocks of a table: its rows as of the change `seq` ('base'), the keys that were deleted up to it ('gone', of a table
-- that is NON RETROACTIVE), and the rows that the change `seq` removed and added ('change').
CREATE TABLE relation_parts (
  id INTEGER PRIMARY KEY,
  relation INTEGER NOT NULL REFERENCES relations (id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  seq INTEGER NOT NULL,
  block INTEGER NOT NULL REFERENCES blocks (id)
);
CREATE INDEX relation_parts_by_relation ON relation_parts (relation, seq, id);

-- The tables that a plan reads. `seq` is the last change that is in effect at its last committed tick (-1: it has not
-- ticked), `tick` the tick from which on it is.
CREATE TABLE plan_relations (
  plan INTEGER NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
  relation INTEGER NOT NULL REFERENCES relations (id) ON DELETE RESTRICT,
  seq INTEGER NOT NULL,
  tick INTEGER,
  PRIMARY KEY (plan, relation)
);
