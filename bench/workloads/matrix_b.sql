-- DELETE and INSERT of the same key in one transaction, which is how many programs
-- update. btree looks in the unique index, which meets its duplicate, and not in the
-- other.
--
-- From: the cases in which nbtree gets no hint (b), 20 rows a transaction.

CREATE TABLE item (id bigint PRIMARY KEY, code uuid NOT NULL, label uuid NOT NULL,
	version bigint NOT NULL);
CREATE INDEX item_label ON item USING :am (label) :with;
CREATE UNIQUE INDEX item_code ON item USING :am (code) :with;
INSERT INTO item SELECT i, pick_uuid(i), pick_uuid(-i), 0 FROM generate_series(1, :rows) i;
ANALYZE item;

CREATE FUNCTION replace_items(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	victim bigint;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		victim := pick(i, rows);
		DELETE FROM item WHERE id = victim;
		INSERT INTO item VALUES (victim, pick_uuid(victim), pick_uuid(-victim), i);
	END LOOP;
END $$;
