-- How late a stream's tuples have come on an axis: JSON, tuples by bucket and the greatest lateness.
ALTER TABLE axes ADD COLUMN lateness TEXT;
