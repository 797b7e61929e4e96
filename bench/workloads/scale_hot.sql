-- A hot spot in a large table: rows within 1 % of the keys are deleted and inserted at
-- random, three times over; the rest stays. The share of dead rows in the whole table
-- stays so small that it says little.
--
-- From: the head of a queue in a table of a billion rows. 20 rows a transaction.

CREATE TABLE hot_spot (id bigint NOT NULL, k bigint NOT NULL);
INSERT INTO hot_spot SELECT i, i * 1000 FROM generate_series(1, :rows) i;
CREATE UNIQUE INDEX hot_spot_id ON hot_spot (id);
CREATE INDEX hot_spot_k ON hot_spot USING :am (k) :with;
VACUUM ANALYZE hot_spot;

CREATE FUNCTION stir(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	hot bigint := rows / 100;
	victim bigint;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		victim := rows / 2 + pick(i, hot);
		DELETE FROM hot_spot WHERE id = victim;
		INSERT INTO hot_spot VALUES (victim, 1000 * (rows / 2) + pick(-i, 1000 * hot));
	END LOOP;
END $$;
