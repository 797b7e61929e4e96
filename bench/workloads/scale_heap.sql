-- A heap four times as large as shared_buffers is churned, while another client reads a
-- small table again and again. Do passes evict what others need? "others" are the blocks
-- that the small table's readers had to read again, a request, and how many of its
-- blocks are cached in the end.
--
-- From: the question what passes over a heap that is not cached do. 20 rows a
-- transaction; shared_buffers is 16 MB.

CREATE TABLE big (id bigint PRIMARY KEY, k uuid NOT NULL, filler char(180) NOT NULL);
CREATE INDEX big_k ON big USING :am (k) :with;
INSERT INTO big SELECT i, pick_uuid(i), '' FROM generate_series(1, :rows) i;
CREATE TABLE others (id int PRIMARY KEY, filler char(180) NOT NULL);
INSERT INTO others SELECT i, '' FROM generate_series(1, :rows / 10) i;
VACUUM ANALYZE;
CREATE EXTENSION pg_buffercache;

CREATE FUNCTION churn(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	victim bigint;
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		victim := pick(i, rows);
		DELETE FROM big WHERE id = victim;
		INSERT INTO big VALUES (victim, pick_uuid(rows + i), '');
	END LOOP;
END $$;
