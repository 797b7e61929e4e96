-- A skewed foreign key, 80 % of the rows have one value: first insertions alone, with
-- nothing to clean, then deletions, too.
--
-- From: field reports on skewed foreign keys. 20 rows a transaction. Expected: pages of the
-- common value are cleaned as well, and nothing is lost where there is nothing to clean.

CREATE TABLE event (id bigint PRIMARY KEY, tenant int NOT NULL);
CREATE INDEX event_tenant ON event USING :am (tenant) :with;

CREATE FUNCTION tenant_of(n bigint) RETURNS int
LANGUAGE sql IMMUTABLE AS
	'SELECT CASE WHEN pick(n, 5) > 1 THEN 1 ELSE 1 + pick(-n, 1000)::int END';
INSERT INTO event SELECT i, tenant_of(i) FROM generate_series(1, :rows) i;
VACUUM ANALYZE event;

CREATE FUNCTION log_events(batch bigint, rows bigint, keep bool) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	victim bigint;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		IF keep THEN
			INSERT INTO event VALUES (rows + i, tenant_of(rows + i));
		ELSE
			victim := pick(i, 2 * rows);
			DELETE FROM event WHERE id = victim;
			INSERT INTO event VALUES (victim, tenant_of(2 * rows + i));
		END IF;
	END LOOP;
END $$;
