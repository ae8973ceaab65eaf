-- What punctuation patterns promised of a part of a stream and the frontier has not overtaken: no more tuples with the
-- axis below `bound` that meet `conditions` (as a pattern's text); `given` is how far its groups have been answered.
CREATE TABLE promises (
  stream TEXT NOT NULL COLLATE NOCASE REFERENCES streams (name) ON DELETE CASCADE,
  axis TEXT NOT NULL,
  conditions TEXT NOT NULL,
  for_ever INTEGER NOT NULL,
  bound INTEGER NOT NULL,
  given INTEGER,
  PRIMARY KEY (stream, axis, conditions, for_ever)
);
-- How many promises have come.
ALTER TABLE streams ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;

-- The point below which a synopsis has let go of groups that were answered early (NULL: of none).
ALTER TABLE synopses ADD COLUMN complete_from INTEGER;

-- Whether a query came when groups had been answered early by promises, and has still to answer them itself.
ALTER TABLE queries ADD COLUMN fresh INTEGER NOT NULL DEFAULT 0;
