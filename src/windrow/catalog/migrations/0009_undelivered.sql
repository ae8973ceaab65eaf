-- Answers that a sink or subscriber has not taken yet wait in this block (NULL: the entry names a stage of the sink).
ALTER TABLE outbox ADD COLUMN block INTEGER;
