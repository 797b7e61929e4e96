-- A partial index that rows leave: of all tasks only the open ones are in it. When a task
-- is done, nothing happens in the index until a later insertion.
--
-- From: the cases in which nbtree gets no hint (i), 20 rows a transaction. As many tasks
-- get done, and as many come, as there are open ones.

CREATE TABLE task (id bigint PRIMARY KEY, name uuid NOT NULL, done bool NOT NULL);
CREATE INDEX task_open ON task USING :am (name) :with WHERE NOT done;
INSERT INTO task SELECT i, pick_uuid(i), false FROM generate_series(1, :rows) i;
ANALYZE task;

CREATE FUNCTION work(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		UPDATE task SET done = true WHERE id = i;
		INSERT INTO task VALUES (rows + i, pick_uuid(rows + i), false);
	END LOOP;
END $$;
