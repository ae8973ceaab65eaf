-- An accumulator that is not kept for a query but derived from others (SS4): their definitions as JSON, those that are
-- added and those that are subtracted. `is_sign`: it only says whether there is a tuple.
CREATE TABLE derivations (
  query INTEGER NOT NULL REFERENCES queries (id) ON DELETE CASCADE,
  accumulator TEXT NOT NULL,
  added TEXT NOT NULL,
  subtracted TEXT NOT NULL,
  is_sign INTEGER NOT NULL,
  PRIMARY KEY (query, accumulator)
);
