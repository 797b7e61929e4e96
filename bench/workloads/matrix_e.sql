-- Logical replication. The publisher updates a column that only a plain btree has, so its
-- btrees get the hint; the subscriber is sent all columns, takes them for changed, and its
-- btrees never look. "seconds" is until the subscriber has applied everything.
--
-- From: the cases in which nbtree gets no hint (e), 20 rows a transaction. Publisher and
-- subscriber are two databases of one server, with the same indexes.

CREATE TABLE device (id bigint PRIMARY KEY, serial uuid NOT NULL, site int NOT NULL,
	reading int NOT NULL);
CREATE INDEX device_serial ON device USING :am (serial) :with;
CREATE INDEX device_site ON device USING :am (site) :with;
CREATE INDEX device_reading ON device (reading);	-- so that no update is HOT
INSERT INTO device SELECT i, pick_uuid(i), pick(i, 1000), 0
	FROM generate_series(1, :rows) i;
ANALYZE device;

CREATE FUNCTION read_devices(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		UPDATE device SET reading = reading + pick(i, 100) WHERE id = pick(i, rows);
	END LOOP;
END $$;
