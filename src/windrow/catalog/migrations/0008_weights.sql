-- Of a synopsis in its Spark home: what a cell and a group took in the driver when it left there (NULL: not known), and
-- the most groups that a job has found.
ALTER TABLE synopses ADD COLUMN cell_bytes REAL;
ALTER TABLE synopses ADD COLUMN group_bytes REAL;
ALTER TABLE synopses ADD COLUMN groups_seen INTEGER;
