-- A job queue on which autovacuum never gets its turn: jobs are inserted, fetched, worked
-- on, completed, deleted; few are waiting at any time. "fetch" is the time of a fetch
-- alone, after all that.
--
-- From: github.com/riverqueue/river/issues/59. Expected: index size and fetch time stay
-- flat.

CREATE TABLE job (id bigint PRIMARY KEY, state text NOT NULL, queue text NOT NULL,
	priority int NOT NULL, scheduled_at timestamptz NOT NULL, attempt int NOT NULL);
CREATE INDEX job_fetch ON job USING :am (state, queue, priority, scheduled_at, id) :with;
INSERT INTO job SELECT i, 'available', 'default', pick(i, 4), now(), 0
	FROM generate_series(1, 200) i;
VACUUM ANALYZE job;

CREATE FUNCTION fetch_jobs(n int) RETURNS SETOF bigint
LANGUAGE sql AS $$
	UPDATE job SET state = 'running', attempt = attempt + 1
	WHERE id IN (SELECT id FROM job
		WHERE state = 'available' AND queue = 'default' AND scheduled_at <= now()
		ORDER BY priority, scheduled_at, id LIMIT n FOR UPDATE SKIP LOCKED)
	RETURNING id;
$$;
