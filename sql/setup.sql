--
-- Extensions and helpers that the other files use.
--
-- It takes a minute to mirror the operator classes if caches are discarded
-- all the time; "opclass" tests that.
SET debug_discard_caches = 0;
CREATE EXTENSION amcheck;
CREATE EXTENSION bunbtree;
RESET debug_discard_caches;

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

-- Runs queries, all as one command, because on servers that discard their
-- caches all the time this is where the time goes.  Each gives one string.
CREATE FUNCTION command_of(queries text[]) RETURNS text
LANGUAGE sql
AS $$
	SELECT 'SELECT ARRAY[(SELECT string_agg(q::text, chr(10)) FROM ('
		   || array_to_string(queries, ') q), (SELECT string_agg(q::text, chr(10)) FROM (')
		   || ') q)]';
$$;

-- Narrows the plans of this transaction down to "index", "indexonly" or "bitmap"
-- scans; "any" leaves them all but sequential ones.  Sets the schema, too.
CREATE FUNCTION narrow(scan text, schema text) RETURNS void
LANGUAGE sql
AS $$
	SELECT set_config('search_path', schema || ', public', true);
	SELECT set_config(name, 'off', true)
	FROM unnest(CASE scan
				WHEN 'any' THEN '{enable_seqscan,enable_sort}'
				WHEN 'index' THEN '{enable_seqscan,enable_sort,enable_bitmapscan,enable_indexonlyscan}'
				WHEN 'indexonly' THEN '{enable_seqscan,enable_sort,enable_bitmapscan}'
				WHEN 'bitmap' THEN '{enable_seqscan,enable_indexscan,enable_indexonlyscan}'
				END::text[]) name;
$$;

-- Runs queries in both schemas.  Do they give the same rows in the same order?
CREATE FUNCTION same(scan text, VARIADIC queries text[]) RETURNS boolean
LANGUAGE plpgsql
SET search_path = public
SET enable_seqscan = on
SET enable_sort = on
SET enable_indexscan = on
SET enable_indexonlyscan = on
SET enable_bitmapscan = on
AS $$
DECLARE
	command text := command_of(queries);
	with_btree text[];
	with_bunbtree text[];
BEGIN
	PERFORM narrow(scan, 'bt');
	EXECUTE command INTO with_btree;
	PERFORM set_config('search_path', 'bun, public', true);
	EXECUTE command INTO with_bunbtree;
	RETURN with_bunbtree = with_btree;
END
$$;

-- The same in detail: which index scans the plan of each query on bunbtree has,
-- how many rows come out, and whether they are the same as with btree.
CREATE FUNCTION compare(scan text, VARIADIC queries text[])
RETURNS TABLE (query text, scans text, count int, same boolean)
LANGUAGE plpgsql
SET search_path = public
SET enable_seqscan = on
SET enable_sort = on
SET enable_indexscan = on
SET enable_indexonlyscan = on
SET enable_bitmapscan = on
AS $$
DECLARE
	command text := command_of(queries);
	with_btree text[];
	with_bunbtree text[];
	plan jsonb;
BEGIN
	PERFORM narrow(scan, 'bt');
	EXECUTE command INTO with_btree;
	PERFORM set_config('search_path', 'bun, public', true);
	EXECUTE command INTO with_bunbtree;
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || command INTO plan;

	RETURN QUERY
		SELECT queries[i],
			   (SELECT string_agg(concat(CASE WHEN node->>'Parallel Aware' = 'true'
											  THEN 'Parallel ' END,
										 node->>'Node Type',
										 CASE WHEN node->>'Scan Direction' = 'Backward'
											  THEN ' Backward' END,
										 ' ' || (node->>'Index Name')),
								  ', ' ORDER BY n)
				FROM jsonb_path_query(plan->0->'Plan'->'Plans'->(i - 1),
									  'strict $.** ? (exists (@."Index Name")
									   || @."Node Type" == "Bitmap Heap Scan"
									   && @."Parallel Aware" == true)')
					 WITH ORDINALITY t(node, n)),
			   coalesce(array_length(string_to_array(with_bunbtree[i], chr(10)), 1), 0),
			   with_bunbtree[i] IS NOT DISTINCT FROM with_btree[i]
		FROM generate_subscripts(queries, 1) i;
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

-- Does this session take an index for a btree at the moment?  amcheck refuses
-- those that it does not.
CREATE FUNCTION in_disguise(index regclass) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
	PERFORM bt_index_check(index);
	RETURN true;
EXCEPTION WHEN feature_not_supported OR wrong_object_type THEN
	RETURN false;
END
$$;

-- How many bunbtree indexes does it take for btrees?
CREATE FUNCTION disguises() RETURNS bigint
LANGUAGE sql
AS $$
	SELECT count(*) FILTER (WHERE in_disguise(c.oid))
	FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE c.relkind = 'i' AND a.amname = 'bunbtree';
$$;

-- Waits until dead rows of ended transactions can be removed, and deleted pages
-- used, that is until no snapshot of another session may still see them.
CREATE PROCEDURE wait_for_horizon()
LANGUAGE plpgsql
AS $$
BEGIN
	FOR i IN 1 .. 1000
	LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_get_activity(NULL)
							  WHERE datid IS NOT NULL AND pid <> pg_backend_pid()
									AND (backend_xmin IS NOT NULL
										 OR backend_xid IS NOT NULL));
		PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
	END LOOP;
END
$$;
