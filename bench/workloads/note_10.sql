-- The references of a package are replaced as a whole: delete all, insert all again, most
-- of them the same as before; one transaction each.
--
-- From: github.com/sourcegraph/sourcegraph-public-snapshot/pull/20965. The flagship case.

CREATE TABLE reference (dump int NOT NULL, scheme text NOT NULL, name uuid NOT NULL,
	version int NOT NULL);
CREATE INDEX reference_dump ON reference (dump);
CREATE INDEX reference_name ON reference USING :am (scheme, name, version) :with;
CREATE INDEX reference_name_dump ON reference USING :am (name, dump) :with;
INSERT INTO reference SELECT i / 40, 'scheme' || pick(i, 5), pick_uuid(pick(i, 20000)), 1
	FROM generate_series(0, :rows - 1) i;
ANALYZE reference;

CREATE FUNCTION replace_dump(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	which int := pick(batch, rows / 40) - 1;
BEGIN
	DELETE FROM reference WHERE dump = which;
	INSERT INTO reference SELECT which, 'scheme' || pick(i, 5), pick_uuid(pick(i, 20000)),
		1 + (i % 10 = 0)::int * pick(batch, 10)
		FROM generate_series(which * 40, which * 40 + 39) i;
END $$;
