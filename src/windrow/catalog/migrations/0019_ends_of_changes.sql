-- `hi` of changes is now when the last of them ends, NULL if that is not known. Spark's tasks wrote the tick before.
UPDATE plan_parts SET hi = NULL WHERE kind = 'changes';

-- The view is made of its merged parts and of the changes of commits from `shown_from` on.
ALTER TABLE plans ADD COLUMN shown_from INTEGER NOT NULL DEFAULT 0;
