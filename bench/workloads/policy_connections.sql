-- Delete any row, insert a new one, 50 times 2,000 rows: table "one" over one
-- connection, table "many" over a connection for each time. What is learned belongs to
-- the index, so the two should not differ.
--
-- From: connection pools, whose sessions come and go. 100 rows a transaction.

CREATE TABLE one (id bigint PRIMARY KEY, k uuid NOT NULL);
CREATE INDEX one_k ON one USING :am (k) :with;
INSERT INTO one SELECT i, pick_uuid(i) FROM generate_series(1, :rows) i;
CREATE TABLE many (id bigint PRIMARY KEY, k uuid NOT NULL);
CREATE INDEX many_k ON many USING :am (k) :with;
INSERT INTO many SELECT i, pick_uuid(i) FROM generate_series(1, :rows) i;
ANALYZE one, many;

CREATE PROCEDURE replace_rows(name regclass, batch bigint, rows bigint)
LANGUAGE plpgsql AS $$
DECLARE
	victim bigint;
BEGIN
	FOR i IN 2000 * batch + 1 .. 2000 * batch + 2000 LOOP
		victim := pick(i, rows);
		IF name = 'one'::regclass THEN
			DELETE FROM one WHERE id = victim;
			INSERT INTO one VALUES (victim, pick_uuid(rows + i));
		ELSE
			DELETE FROM many WHERE id = victim;
			INSERT INTO many VALUES (victim, pick_uuid(rows + i));
		END IF;
		IF i % 100 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
