-- For readers outside of the process that runs the state. What Spark's analyser said about a query (JSON, as
-- plan/type_record.py saves it), and the type of its window attribute.
ALTER TABLE queries ADD COLUMN types TEXT;
ALTER TABLE queries ADD COLUMN axis_type TEXT;
-- Counters since the state was opened, as of the last commit: those of a stream and its sizes as JSON.
ALTER TABLE streams ADD COLUMN metrics TEXT;
ALTER TABLE queries ADD COLUMN run_windows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queries ADD COLUMN run_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queries ADD COLUMN delivered_s REAL;
ALTER TABLE queries ADD COLUMN callback_errors INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queries ADD COLUMN callback_error TEXT;
