-- Random uuid keys: first insertions alone, which must not become slower, then insertions
-- and deletion of the oldest.
--
-- From: github.com/multica-ai/multica/pull/7230. 20 rows a transaction.

CREATE TABLE message (n bigint PRIMARY KEY, id uuid NOT NULL);
CREATE INDEX message_id ON message USING :am (id) :with;
INSERT INTO message SELECT i, pick_uuid(i) FROM generate_series(1, :rows) i;
VACUUM ANALYZE message;

CREATE FUNCTION send(batch bigint, rows bigint, keep bool) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	-- The first phase has doubled the table.
	start bigint := CASE WHEN keep THEN rows ELSE 2 * rows END;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		INSERT INTO message VALUES (start + i, pick_uuid(start + i));
		IF NOT keep THEN
			DELETE FROM message WHERE n = i;
		END IF;
	END LOOP;
END $$;
