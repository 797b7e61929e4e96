--
-- Extensions and helpers that the other files use.
--
CREATE EXTENSION amcheck;
CREATE EXTENSION bunbtree;

-- What can be compared with btree is made twice: in schema "bt" with btree
-- indexes, in schema "bun" with bunbtree indexes of the same names.  This runs
-- commands in both schemas; "@am" stands for the access method.
CREATE PROCEDURE twice(commands text)
LANGUAGE plpgsql
SET search_path = public
AS $$
BEGIN
	PERFORM set_config('search_path', 'bt, public', true);
	EXECUTE replace(commands, '@am', 'btree');
	PERFORM set_config('search_path', 'bun, public', true);
	EXECUTE replace(commands, '@am', 'bunbtree');
END
$$;

-- Runs a query in both schemas, without sequential scans, and tells which
-- index scans the plan on bunbtree has, how many rows come out, and whether
-- they are the same rows in the same order as with btree.  "scan" narrows the
-- kinds of index scan down to "index", "indexonly" or "bitmap".
--
-- This is the place where the time goes on servers that discard their caches
-- all the time, hence the few statements.
CREATE FUNCTION compare(query text, scan text DEFAULT 'any',
						OUT scans text, OUT count int, OUT same boolean)
LANGUAGE plpgsql
SET search_path = public
SET enable_seqscan = off
SET enable_sort = on
SET enable_indexscan = on
SET enable_indexonlyscan = on
SET enable_bitmapscan = on
AS $$
DECLARE
	with_btree text[];
	with_bunbtree text[];
	plan jsonb;
BEGIN
	query := 'SELECT array_agg(q::text) FROM (' || query || ') q';
	PERFORM set_config('search_path', 'bt, public', true),
			set_config(name, 'off', true)
	FROM unnest(CASE scan
				WHEN 'any' THEN '{enable_sort}'
				WHEN 'index' THEN '{enable_sort,enable_bitmapscan,enable_indexonlyscan}'
				WHEN 'indexonly' THEN '{enable_sort,enable_bitmapscan}'
				WHEN 'bitmap' THEN '{enable_indexscan,enable_indexonlyscan}'
				END::text[]) name;
	EXECUTE query INTO with_btree;
	PERFORM set_config('search_path', 'bun, public', true);
	EXECUTE query INTO with_bunbtree;
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;

	SELECT string_agg(concat(CASE WHEN node->>'Parallel Aware' = 'true' THEN 'Parallel ' END,
							 node->>'Node Type',
							 CASE WHEN node->>'Scan Direction' = 'Backward' THEN ' Backward' END,
							 ' ' || (node->>'Index Name')), ', ' ORDER BY n),
		   coalesce(cardinality(with_bunbtree), 0),
		   with_bunbtree IS NOT DISTINCT FROM with_btree
	INTO scans, count, same
	FROM jsonb_path_query(plan, 'strict $.** ? (exists (@."Index Name")
		|| @."Node Type" == "Bitmap Heap Scan" && @."Parallel Aware" == true)')
		 WITH ORDINALITY t(node, n);
END
$$;

-- Size of an index in pages.
CREATE FUNCTION pages(index regclass) RETURNS bigint
LANGUAGE sql
AS $$
	SELECT pg_relation_size(index) / current_setting('block_size')::bigint;
$$;

-- Verifies every index of a schema, against its heap and from parent pages to
-- child pages.  All must be of access method bunbtree.  Returns their number.
CREATE FUNCTION check_indexes(schema regnamespace) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
	index regclass;
	am name;
	result bigint := 0;
BEGIN
	FOR index, am IN
		SELECT c.oid, a.amname
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE c.relnamespace = schema AND c.relkind = 'i'
		ORDER BY c.oid
	LOOP
		IF am <> 'bunbtree' THEN
			RAISE EXCEPTION 'index "%" has access method "%"', index, am;
		END IF;
		PERFORM bunbtree_check(index, true, true);
		result := result + 1;
	END LOOP;
	RETURN result;
END
$$;

-- Waits until dead rows of this database's ended transactions can be removed,
-- that is until no snapshot of another session may still see them.
CREATE PROCEDURE wait_for_horizon()
LANGUAGE plpgsql
AS $$
BEGIN
	FOR i IN 1 .. 1000
	LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity
							  WHERE datname = current_database()
									AND pid <> pg_backend_pid()
									AND (backend_xmin IS NOT NULL
										 OR backend_xid IS NOT NULL));
		PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
	END LOOP;
END
$$;
