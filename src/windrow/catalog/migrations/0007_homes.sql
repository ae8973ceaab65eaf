-- Into how many buckets the blocks of a synopsis are cut, in its Spark home (NULL: it is in the driver's).
ALTER TABLE synopses ADD COLUMN buckets INTEGER;
