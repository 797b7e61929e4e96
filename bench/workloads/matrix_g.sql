-- A unique index in which one column is always NULL, so no key ever counts as a duplicate:
-- DELETE and INSERT of the same values. btree looks in a unique index if it meets a
-- duplicate.
--
-- From: the cases in which nbtree gets no hint (g), 20 rows a transaction.

CREATE TABLE member (id bigint PRIMARY KEY, email uuid NOT NULL, deleted_at timestamptz,
	version bigint NOT NULL);
CREATE UNIQUE INDEX member_email ON member USING :am (email, deleted_at) :with;
INSERT INTO member SELECT i, pick_uuid(i), NULL, 0 FROM generate_series(1, :rows) i;
ANALYZE member;

CREATE FUNCTION replace_members(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	victim bigint;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		victim := pick(i, rows);
		DELETE FROM member WHERE id = victim;
		INSERT INTO member VALUES (victim, pick_uuid(victim), NULL, i);
	END LOOP;
END $$;
