-- Batches of 1,000 jobs: inserted, their state set twice, deleted when the next batch is
-- in.
--
-- From: github.com/timgit/pg-boss/issues/876, with an index of 130 MB where 136 kB are due.
-- Expected: at most three times a fresh build, without REINDEX.

CREATE TABLE job (id uuid NOT NULL, batch bigint NOT NULL, name text NOT NULL,
	state text NOT NULL, created_on timestamptz NOT NULL);
CREATE INDEX job_id ON job USING :am (id) :with;
CREATE INDEX job_name ON job USING :am (name, state) :with;
CREATE INDEX job_state ON job USING :am (state, created_on) :with;
CREATE INDEX job_batch ON job (batch);

CREATE PROCEDURE add_batch(b bigint)
LANGUAGE sql AS $$
	INSERT INTO job SELECT pick_uuid(1000 * b + i), b, 'queue' || pick(i, 10), 'created', clock_timestamp()
		FROM generate_series(1, 1000) i;
$$;
CALL add_batch(0);
VACUUM ANALYZE job;
