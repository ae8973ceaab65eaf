-- A stream's progress on each axis of its windows: the punctuated columns, and the row numbers. `frontier` is JSON, as
-- its policy keeps it. The axis '' is the stream's own window attribute, of catalogs that knew only that.
CREATE TABLE axes (
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE CASCADE,
  axis TEXT NOT NULL,
  frontier TEXT NOT NULL,
  least INTEGER,
  ticked INTEGER,
  PRIMARY KEY (stream, axis)
);
INSERT INTO axes (stream, axis, frontier, least, ticked)
  SELECT name, '', json_object('greatest', greatest, 'promised', promised), least, ticked FROM streams;
ALTER TABLE streams DROP COLUMN least;
ALTER TABLE streams DROP COLUMN greatest;
ALTER TABLE streams DROP COLUMN promised;
ALTER TABLE streams DROP COLUMN ticked;

-- How many tuples lie in the panes that have left a synopsis whose windows go by rank.
ALTER TABLE synopses ADD COLUMN ranked INTEGER NOT NULL DEFAULT 0;
