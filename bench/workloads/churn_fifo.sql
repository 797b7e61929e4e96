-- Delete the oldest row, insert a new one with a random uuid, as often as there
-- are rows. The dead ones lie together in the table, anywhere in the index.
--
-- From: the first measurements of bunbtree, 20 rows a transaction.

CREATE TABLE churn (id bigint PRIMARY KEY, k uuid NOT NULL);
CREATE INDEX churn_k ON churn USING :am (k) :with;
INSERT INTO churn SELECT i, pick_uuid(i) FROM generate_series(1, :rows) i;
ANALYZE churn;

CREATE FUNCTION churn_fifo(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		DELETE FROM churn WHERE id = i;
		INSERT INTO churn VALUES (rows + i, pick_uuid(rows + i));
	END LOOP;
END $$;
