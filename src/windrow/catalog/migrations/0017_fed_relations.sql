-- A table that a stream feeds: what it reads of the stream (JSON), and the point below which all rows of the stream are
-- in it (NULL: it has read none).
ALTER TABLE relations ADD COLUMN feed TEXT;
ALTER TABLE relations ADD COLUMN applied INTEGER;

-- Of such a table: the point below which its changes are in effect for the plan. Before the plan has ticked: that from
-- which on it needs them.
ALTER TABLE plan_relations ADD COLUMN upto INTEGER;
