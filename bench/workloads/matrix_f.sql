-- An index on an expression whose column is in the SET list, though the expression's
-- value stays: lower(email), and people who write it in capitals. btree takes the key for
-- changed.
--
-- From: the cases in which nbtree gets no hint (f), 20 rows a transaction.

CREATE TABLE account (id bigint PRIMARY KEY, email text NOT NULL);
CREATE INDEX account_email ON account USING :am (lower(email)) :with;
INSERT INTO account SELECT i, md5(i::text) || '@example.com'
	FROM generate_series(1, :rows) i;
ANALYZE account;

CREATE FUNCTION rename(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		UPDATE account SET email = CASE WHEN i % 2 = 0 THEN upper(email) ELSE lower(email) END
			WHERE id = pick(i, rows);
	END LOOP;
END $$;
