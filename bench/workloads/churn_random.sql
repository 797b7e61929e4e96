-- Delete any row, insert a new one with a random uuid, as often as there are rows.
-- The dead ones lie anywhere, in table and index.
--
-- From: the first measurements of bunbtree, 20 rows a transaction.

CREATE TABLE churn (id bigint PRIMARY KEY, k uuid NOT NULL);
CREATE INDEX churn_k ON churn USING :am (k) :with;
INSERT INTO churn SELECT i, pick_uuid(i) FROM generate_series(1, :rows) i;
ANALYZE churn;

-- A row keeps its place in the order of ids, so each deletion finds one.
CREATE FUNCTION churn_random(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	victim bigint;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		victim := pick(i, rows);
		DELETE FROM churn WHERE id = victim;
		INSERT INTO churn VALUES (victim, pick_uuid(rows + i));
	END LOOP;
END $$;
