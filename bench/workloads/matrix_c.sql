-- UPDATE that changes the key: jobs are put off to some other time, and change their
-- status. btree never looks.
--
-- From: the cases in which nbtree gets no hint (c), 20 rows a transaction.

CREATE TABLE job (id bigint PRIMARY KEY, run_at timestamptz NOT NULL, status int NOT NULL,
	attempts int NOT NULL);
CREATE INDEX job_run_at ON job USING :am (run_at) :with;
CREATE INDEX job_status ON job USING :am (status, run_at) :with;
INSERT INTO job SELECT i, '2025-01-01'::timestamptz + pick(i, 86400000) * interval '1 ms',
	pick(i, 4), 0
	FROM generate_series(1, :rows) i;
ANALYZE job;

CREATE FUNCTION put_off(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		UPDATE job SET
			run_at = '2025-01-01'::timestamptz + pick(rows + i, 86400000) * interval '1 ms',
			status = pick(rows + i, 4), attempts = attempts + 1
			WHERE id = pick(i, rows);
	END LOOP;
END $$;
