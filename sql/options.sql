--
-- Settings: storage parameters of an index, and the configuration parameters
-- that hold for indexes without.
--
CREATE TABLE opt (a int, b int)
	WITH (autovacuum_enabled = off);

-- Storage parameters of our own ...
CREATE INDEX opt_off ON opt USING bunbtree (a) WITH (bottomup = off);
CREATE INDEX opt_hinted ON opt USING bunbtree (a) WITH (bottomup = hinted, heap_blocks = 1, io = any, min_yield = 0.5);
CREATE INDEX opt_auto ON opt USING bunbtree (a) WITH (bottomup = 'AUTO', heap_blocks = 1400);
-- ... next to btree's, which mean the same ...
CREATE INDEX opt_btree ON opt USING bunbtree (a)
	WITH (fillfactor = 70, deduplicate_items = off, vacuum_cleanup_index_scale_factor = 0.1);
CREATE INDEX opt_mixed ON opt USING bunbtree (a)
	WITH (heap_blocks = 32, fillfactor = 50, bottomup = auto, deduplicate_items = on);
-- ... or none.
CREATE INDEX opt_none ON opt USING bunbtree (a);
SELECT relname, reloptions FROM pg_class WHERE relname LIKE 'opt\_%' ORDER BY relname;
SELECT pg_get_indexdef('opt_mixed'::regclass);

-- Wrong values name the right ones.
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (bottomup = sometimes);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (bottomup);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (heap_blocks = 0);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (heap_blocks = 1401);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (heap_blocks = -1);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (heap_blocks = 'many');
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (io = disk);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (min_yield = -0.5);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (min_yield = 101);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (fillfactor = 9);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (fillfactor = 101);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (deduplicate_items = perhaps);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (fastupdate = on);
CREATE INDEX opt_wrong ON opt USING bunbtree (a) WITH (bottomup = off, bottomup = auto);
-- What is ours is unknown to btree.
CREATE INDEX opt_wrong ON opt USING btree (a) WITH (bottomup = off);

-- Changed later.  An error leaves what was.
ALTER INDEX opt_none SET (bottomup = off, heap_blocks = 10, fillfactor = 80);
ALTER INDEX opt_none SET (heap_blocks = 20);
ALTER INDEX opt_none SET (heap_blocks = 2000);
ALTER INDEX opt_none SET (bottomup = auto, colour = green);
SELECT reloptions FROM pg_class WHERE relname = 'opt_none';
ALTER INDEX opt_none RESET (heap_blocks, fillfactor);
SELECT reloptions FROM pg_class WHERE relname = 'opt_none';
ALTER INDEX opt_none RESET (bottomup);
SELECT reloptions FROM pg_class WHERE relname = 'opt_none';
INSERT INTO opt SELECT i, i FROM generate_series(1, 1000) i;

-- A partitioned index hands its options down to partitions made later.
CREATE TABLE opt_part (a int) PARTITION BY RANGE (a);
CREATE INDEX opt_part_a ON opt_part USING bunbtree (a) WITH (bottomup = hinted, heap_blocks = 7);
CREATE TABLE opt_part_1 PARTITION OF opt_part FOR VALUES FROM (0) TO (10);
SELECT reloptions FROM pg_class WHERE relname = 'opt_part_1_a_idx';

-- Configuration parameters.
SHOW bunbtree.bottomup;
SHOW bunbtree.heap_blocks;
SHOW bunbtree.scan_cleanup_limit;
SELECT name, vartype, unit, context, min_val, max_val, enumvals, boot_val
FROM pg_settings
WHERE name LIKE 'bunbtree.%'
ORDER BY name;
SET bunbtree.bottomup = hinted;
SET bunbtree.heap_blocks = 1400;
SET bunbtree.max_pass_time = '500us';
SHOW bunbtree.bottomup;
SHOW bunbtree.heap_blocks;
SHOW bunbtree.max_pass_time;
SET bunbtree.max_pass_time = '1s';
SHOW bunbtree.max_pass_time;
SET bunbtree.bottomup = sometimes;
SET bunbtree.io = none;
SET bunbtree.min_yield = -1;
SET bunbtree.min_yield = 101;
SET bunbtree.track_timing = perhaps;
SET bunbtree.max_indexes = 10;
SET bunbtree.heap_blocks = 0;
SET bunbtree.heap_blocks = 1401;
SET bunbtree.heap_blocks = many;
SET bunbtree.max_pass_time = never;
SET bunbtree.scan_cleanup_limit = -2;
SET bunbtree.scan_cleanup_limit = 0;
SET bunbtree.scan_cleanup_limit = 2147483647;
RESET bunbtree.scan_cleanup_limit;
-- From 18 on the message adds units to these bounds.
DO $$
BEGIN
	FOR i IN 1 .. 2
	LOOP
		BEGIN
			PERFORM set_config('bunbtree.max_pass_time', (ARRAY['0.001', '1001'])[i], false);
		EXCEPTION WHEN invalid_parameter_value THEN
			RAISE NOTICE '%', replace(sqlerrm, ' ms', '');
		END;
	END LOOP;
END
$$;
-- No other name begins with "bunbtree.".
SET bunbtree.colour = green;
RESET bunbtree.bottomup;
RESET bunbtree.heap_blocks;
RESET bunbtree.max_pass_time;

-- Everyone may choose for himself when to look for dead entries; how long a
-- page may stay locked is for superusers to say, or for whom they grant it to.
CREATE ROLE regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SET bunbtree.bottomup = off;
SET bunbtree.heap_blocks = 100;
SET bunbtree.max_pass_time = 2;
RESET ROLE;
GRANT SET ON PARAMETER bunbtree.max_pass_time TO regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SET bunbtree.max_pass_time = 2;
SHOW bunbtree.max_pass_time;
RESET ROLE;
REVOKE SET ON PARAMETER bunbtree.max_pass_time FROM regress_bunbtree_user;
DROP ROLE regress_bunbtree_user;
RESET bunbtree.bottomup;
RESET bunbtree.heap_blocks;
RESET bunbtree.max_pass_time;

DROP TABLE opt, opt_part;
