-- All columns are in the SET list though one has changed: an object mapper that saves
-- whole rows, and INSERT … ON CONFLICT DO UPDATE. btree takes the keys for changed.
--
-- From: the cases in which nbtree gets no hint (d), 20 rows a transaction.

CREATE TABLE customer (id bigint PRIMARY KEY, token uuid NOT NULL, region int NOT NULL,
	visits int NOT NULL);
CREATE INDEX customer_token ON customer USING :am (token) :with;
CREATE INDEX customer_region ON customer USING :am (region) :with;
CREATE INDEX customer_visits ON customer (visits);	-- so that no update is HOT
INSERT INTO customer SELECT i, pick_uuid(i), pick(i, 1000), 0
	FROM generate_series(1, :rows) i;
ANALYZE customer;

CREATE FUNCTION save(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	c customer;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		SELECT * INTO c FROM customer WHERE id = pick(i, rows);
		c.visits := c.visits + pick(i, 100);
		IF i % 2 = 0 THEN
			UPDATE customer SET token = c.token, region = c.region, visits = c.visits
				WHERE id = c.id;
		ELSE
			INSERT INTO customer VALUES (c.*)
				ON CONFLICT (id) DO UPDATE SET token = excluded.token,
				region = excluded.region, visits = excluded.visits;
		END IF;
	END LOOP;
END $$;
