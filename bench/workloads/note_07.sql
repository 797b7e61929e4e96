-- Retries put jobs off by up to a minute each time, in an index on the time to run at that
-- spans an hour.
--
-- From: github.com/graphile/worker/pull/274 and github.com/openobserve/openobserve/pull/12884.
-- Expected: that index stays bounded. 20 jobs a transaction.

CREATE TABLE job (id bigint PRIMARY KEY, run_at timestamptz NOT NULL, attempts int NOT NULL);
CREATE INDEX job_run_at ON job USING :am (run_at) :with;
INSERT INTO job SELECT i, '2025-01-01'::timestamptz + pick(i, 3600000) * interval '1 ms', 0
	FROM generate_series(1, :rows) i;
ANALYZE job;

CREATE FUNCTION retry(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		UPDATE job SET run_at = run_at + pick(rows + i, 60000) * interval '1 ms',
			attempts = attempts + 1
			WHERE id = pick(i, rows);
	END LOOP;
END $$;
