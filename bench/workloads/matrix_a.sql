-- Plain insertions that land on churned pages: rows of any account are deleted, rows of
-- other accounts inserted. btree never looks.
--
-- From: the cases in which nbtree gets no hint (a), 20 rows a transaction.

CREATE TABLE entry (id bigint PRIMARY KEY, account int NOT NULL, amount int NOT NULL);
CREATE INDEX entry_account ON entry USING :am (account, amount) :with;
INSERT INTO entry SELECT i, pick(i, 1000), pick(-i, 1000000)
	FROM generate_series(1, :rows) i;
ANALYZE entry;

CREATE FUNCTION take(batch bigint, rows bigint) RETURNS void
LANGUAGE sql AS $$
	DELETE FROM entry WHERE id IN (
		SELECT pick(i, rows) FROM generate_series(20 * batch + 1, 20 * batch + 20) i);
$$;
CREATE FUNCTION put(batch bigint, rows bigint) RETURNS void
LANGUAGE sql AS $$
	INSERT INTO entry SELECT pick(i, rows), pick(rows + i, 1000), pick(-rows - i, 1000000)
	FROM generate_series(20 * batch + 1, 20 * batch + 20) i
	ON CONFLICT DO NOTHING;
$$;
