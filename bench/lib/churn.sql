-- Workload for bench/demo: a table keeps its size while its rows change.
--
-- psql variables: rows, workload (oldest | random), am, options, grown (is the
-- index there before the rows are, so that its pages are as full as insertions
-- leave them, not as CREATE INDEX packs them?)
--
-- Every look-up goes through a plain btree on id, whatever is under test.

CREATE TABLE churn (id bigint NOT NULL, k uuid NOT NULL);
\if :grown
	CREATE INDEX churn_k ON churn USING :am (k) :options;
\endif
INSERT INTO churn SELECT i, md5(i::text)::uuid FROM generate_series(1, :rows) i;
CREATE INDEX churn_id ON churn USING btree (id);
\if :grown
\else
	CREATE INDEX churn_k ON churn USING :am (k) :options;
\endif
ANALYZE churn;

-- Delete the oldest row, insert a new one; n times.
CREATE PROCEDURE churn_oldest(n int)
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		DELETE FROM churn WHERE id = i;
		INSERT INTO churn VALUES (n + i, md5((n + i)::text)::uuid);
		IF i % 100 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;

-- Delete any row, insert a new one; n times.  The array holds the id of every
-- row there is, so each deletion finds one.  The generator is a linear
-- congruential one: the same rows in every arm and on every server.
CREATE PROCEDURE churn_random(n int)
LANGUAGE plpgsql AS $$
DECLARE
	ids bigint[] := (SELECT array_agg(i ORDER BY i) FROM generate_series(1, n) i);
	state bigint := 42;
	slot int;
BEGIN
	FOR i IN 1 .. n LOOP
		state := (state * 1103515245 + 12345) & 2147483647;
		slot := 1 + (state >> 8) % n;
		DELETE FROM churn WHERE id = ids[slot];
		ids[slot] := n + i;
		INSERT INTO churn VALUES (n + i, md5((n + i)::text)::uuid);
		IF i % 100 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;

\set statement 'CALL churn_' :workload '(' :rows ');'
\set indexes '{churn_k}'
\ir measure.sql

SELECT count(*) = :rows AS intact FROM churn \gset
\if :intact
\else
	\warn the workload has lost rows
	SELECT 1 / 0;
\endif

DROP TABLE churn;
DROP PROCEDURE churn_oldest, churn_random;
