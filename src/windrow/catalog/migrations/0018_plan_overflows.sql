-- How many values of a plan were NULL because they did not fit their type.
ALTER TABLE plans ADD COLUMN overflows INTEGER NOT NULL DEFAULT 0;

-- SQLite looks for the rows that refer to a block whenever one is deleted.
CREATE INDEX plan_parts_by_block ON plan_parts (block);
CREATE INDEX relation_parts_by_block ON relation_parts (block);
