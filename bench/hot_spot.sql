-- A hot spot in a large table: rows within 1 % of the keys are deleted and
-- inserted at random, the rest stays.  The share of dead rows in the whole
-- table stays small, so that it says little.
--
--     psql -v am=bunbtree -v rows=50000000 -f bench/hot_spot.sql
--     psql -v am=btree -v rows=50000000 -f bench/hot_spot.sql
--
-- Makes and drops the table hot_spot; as many deletions and insertions as the
-- hot spot has rows.  Prints pages of the index before and after.

\set QUIET on
\set hot '(:rows / 100)'
SET client_min_messages = warning;
DROP TABLE IF EXISTS hot_spot;
CREATE TABLE hot_spot (id int, k bigint) WITH (autovacuum_enabled = off);
INSERT INTO hot_spot SELECT i, i * 1000::bigint FROM generate_series(1, :rows) i;
CREATE INDEX hot_spot_k ON hot_spot USING :am (k);
CREATE INDEX hot_spot_id ON hot_spot (id);
VACUUM ANALYZE hot_spot;

CREATE PROCEDURE pg_temp.churn(first int, hot int)
LANGUAGE plpgsql AS $$
DECLARE
	victim int;
BEGIN
	PERFORM setseed(0.3);
	FOR i IN 1 .. hot LOOP
		victim := first + floor(random() * hot);
		DELETE FROM hot_spot WHERE id = victim;
		INSERT INTO hot_spot VALUES (victim, (first + random() * hot) * 1000);
		IF i % 100 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;

SELECT pg_relation_size('hot_spot_k') / 8192 AS before \gset
CALL pg_temp.churn(:rows / 2, :hot);
SELECT :'am' AS access_method, :before AS pages_before,
	pg_relation_size('hot_spot_k') / 8192 AS pages_after;
DROP TABLE hot_spot;
