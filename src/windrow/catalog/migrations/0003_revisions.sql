-- How often the answer to a window was corrected (LATE REVISE); a window that never was is not here. Ends that no late
-- tuple can reach any more are removed.
CREATE TABLE revisions (
  query INTEGER NOT NULL,
  window_end INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (query, window_end)
);

-- The frontier that a query found when it was created: windows due by then were never answered, so never corrected.
ALTER TABLE queries ADD COLUMN closed_by INTEGER;
