--
-- Planning: a bunbtree index gets the plans that a btree index gets.
--
-- Costs depend on how many pages are all-visible: those whose rows nobody may
-- miss, and whose commits have reached the disk.
SET synchronous_commit = on;
-- No plan shall change because autovacuum or autoanalyze came by.
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS bt, bun CASCADE;
CREATE SCHEMA bt;
CREATE SCHEMA bun;

-- Explains a query in both schemas, runs it in both, and says "same" if it has
-- the same plan, down to costs and estimated numbers of rows, and the same
-- rows in the same order.  Else it says what differs, and shows both plans.  A
-- plan without an index proves nothing, so it is reported, too.
CREATE FUNCTION plans(query text) RETURNS text
LANGUAGE plpgsql
SET search_path = public
AS $$
DECLARE
	path text;
	line text;
	plan text[] := '{"",""}';
	costs text[] := '{"",""}';
	rows text[];
	i int := 0;
	verdict text;
BEGIN
	FOREACH path IN ARRAY '{bt,bun}'::text[]
	LOOP
		i := i + 1;
		PERFORM set_config('search_path', path || ', public', true);
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query
		LOOP
			plan[i] := plan[i] || line || E'\n';
		END LOOP;
		FOR line IN EXECUTE 'EXPLAIN ' || query
		LOOP
			costs[i] := costs[i] || line || E'\n';
		END LOOP;
		EXECUTE 'SELECT array_agg(q::text)::text FROM (' || query || ') q' INTO line;
		rows[i] := coalesce(line, 'none');
	END LOOP;

	verdict := concat_ws(', ',
		CASE WHEN plan[1] <> plan[2] THEN 'other plan' END,
		CASE WHEN costs[1] <> costs[2] THEN 'other costs' END,
		CASE WHEN rows[1] <> rows[2] THEN 'OTHER ROWS' END,
		CASE WHEN rows[1] = 'none' THEN 'no rows' END,
		CASE WHEN plan[1] !~ '\mIndex (Only )?Scan\M' THEN 'no index used' END);
	IF verdict <> '' THEN
		RETURN concat(verdict, E'\nbtree:\n', costs[1], E'bunbtree:\n', costs[2]);
	END IF;
	RETURN 'same';
END
$$;

CALL twice($$
CREATE TABLE orders (id int NOT NULL, customer int NOT NULL, placed date NOT NULL,
	status text COLLATE "C", paid boolean, amount numeric, ref bigint, note text COLLATE "C")
	WITH (autovacuum_enabled = off);
INSERT INTO orders
	SELECT i, (i * 7919) % 500, date '2024-01-01' + i / 20,
		   (ARRAY['new', 'open', 'shipped', 'done'])[1 + (i * 31) % 4],
		   CASE WHEN i % 23 <> 0 THEN i % 10 = 0 END,
		   (i * 104729) % 1000 / 4.0, (i * 13) % 10007,
		   CASE WHEN i % 11 <> 0 THEN 'note ' || to_char((i * 7919) % 10000, 'fm0000') END
	FROM generate_series(1, 10000) i;
CREATE UNIQUE INDEX orders_id ON orders USING @am (id);
CREATE INDEX orders_customer ON orders USING @am (customer, placed DESC, id);
CREATE INDEX orders_placed ON orders USING @am (placed) INCLUDE (amount);
CREATE INDEX orders_paid ON orders USING @am (paid, id);
CREATE INDEX orders_open ON orders USING @am (placed, id) WHERE status = 'open';
CREATE INDEX orders_month ON orders USING @am (date_part('month', placed::timestamp), id);
CREATE INDEX orders_upper ON orders USING @am (upper(note));
CREATE INDEX orders_note ON orders USING @am (note);
CREATE INDEX orders_pattern ON orders USING @am (note text_pattern_ops, id);
CREATE INDEX orders_ref ON orders USING @am (ref NULLS FIRST);
CREATE INDEX orders_amount ON orders USING @am (amount DESC NULLS LAST, id);

CREATE TABLE customers (id int NOT NULL, big bigint NOT NULL, name text COLLATE "C",
	region smallint, parent int)
	WITH (autovacuum_enabled = off);
INSERT INTO customers
	SELECT i, i, 'customer ' || i, i % 7, CASE WHEN i > 7 THEN i / 7 END
	FROM generate_series(0, 499) i;
CREATE UNIQUE INDEX customers_id ON customers USING @am (id);
CREATE UNIQUE INDEX customers_big ON customers USING @am (big);
CREATE INDEX customers_region ON customers USING @am (region, id);
CREATE INDEX customers_parent ON customers USING @am (parent);

CREATE TABLE events (at int NOT NULL, kind int, payload text)
	PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (1000);
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (1000) TO (2000);
CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM (2000) TO (3000);
CREATE TABLE events_4 PARTITION OF events FOR VALUES FROM (3000) TO (4000);
INSERT INTO events SELECT i, i * 7 % 100, 'e' || i FROM generate_series(0, 3999) i;
CREATE INDEX ON events USING @am (at);
CREATE INDEX ON events USING @am (kind, at);

CREATE TABLE base (id int, v int) WITH (autovacuum_enabled = off);
CREATE TABLE child (extra int) INHERITS (base) WITH (autovacuum_enabled = off);
INSERT INTO base SELECT i, i % 100 FROM generate_series(1, 2000, 2) i;
INSERT INTO child SELECT i, i % 100, i FROM generate_series(2, 2000, 2) i;
CREATE INDEX base_id ON base USING @am (id);
CREATE INDEX child_id ON child USING @am (id);
CREATE INDEX base_v ON base USING @am (v);
CREATE INDEX child_v ON child USING @am (v);
$$);
CALL wait_for_horizon();
VACUUM (ANALYZE) bt.orders, bun.orders, bt.customers, bun.customers,
	bt.base, bun.base, bt.child, bun.child, bt.events, bun.events;

-- Conditions on one column, in every spelling.
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT * FROM orders WHERE id = 77',
	'SELECT * FROM orders WHERE 77 = id',
	'SELECT id FROM orders WHERE id BETWEEN 100 AND 120',
	'SELECT * FROM orders WHERE id IN (9, 99, 999, 9999)',
	'SELECT * FROM orders WHERE id = ANY (ARRAY(SELECT big::int FROM customers WHERE big < 5))',
	'SELECT * FROM orders WHERE id > 9900 AND id < 9910 AND amount > 1',
	'SELECT * FROM orders WHERE id = bigint ''77''',
	'SELECT * FROM orders WHERE ref = 77',
	'SELECT * FROM orders WHERE ref < smallint ''12''',
	'SELECT * FROM orders WHERE placed >= date ''2025-05-12'' AND placed < timestamp ''2025-05-14 12:00''',
	'SELECT count(*) FROM orders WHERE note IS NULL',
	'SELECT max(amount) FROM orders WHERE note IS NOT NULL AND note < ''note 0100''',
	'SELECT * FROM orders WHERE id = 5 OR customer = 17 OR id = 7',
	'SELECT * FROM orders WHERE customer = 17 AND placed = date ''2024-06-01''',
	'SELECT * FROM orders WHERE customer IN (3, 5) AND placed > date ''2025-01-01''',
	'SELECT * FROM orders WHERE id = (SELECT max(id) - 5 FROM orders)']) q;

-- Boolean columns.
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT id FROM orders WHERE paid AND id < 300',
	'SELECT id FROM orders WHERE NOT paid AND id < 30',
	'SELECT id FROM orders WHERE paid IS TRUE ORDER BY id LIMIT 5',
	'SELECT id FROM orders WHERE paid IS FALSE ORDER BY id DESC LIMIT 5',
	'SELECT id FROM orders WHERE paid = true AND id > 9000 ORDER BY id',
	'SELECT id FROM orders WHERE paid IS NULL ORDER BY id LIMIT 5',
	'SELECT id FROM orders WHERE paid ORDER BY id LIMIT 5',
	'SELECT id FROM orders WHERE NOT paid ORDER BY paid, id LIMIT 5']) q;

-- Patterns, expressions, partial indexes.
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT * FROM orders WHERE note LIKE ''note 012%''',
	'SELECT * FROM orders WHERE note ~ ''^note 0123''',
	'SELECT * FROM orders WHERE note LIKE ''note 0123''',
	'SELECT note FROM orders WHERE note ~>=~ ''note 99'' ORDER BY note USING ~<~',
	'SELECT * FROM orders WHERE starts_with(note, ''note 500'')',
	'SELECT * FROM orders WHERE upper(note) = ''NOTE 0123''',
	'SELECT upper(note) FROM orders ORDER BY upper(note) DESC LIMIT 3',
	'SELECT id FROM orders WHERE date_part(''month'', placed::timestamp) = 2 ORDER BY id LIMIT 10',
	'SELECT id FROM orders WHERE status = ''open'' AND placed < ''2024-01-10'' ORDER BY placed, id',
	'SELECT * FROM orders WHERE status = ''open'' ORDER BY placed DESC, id DESC LIMIT 3',
	'SELECT * FROM orders WHERE status IN (''open'') AND placed = date ''2024-02-02''']) q;

-- Sort orders: forward, backward, with LIMIT, from a prefix, for DISTINCT,
-- grouping and window functions; smallest and largest.
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT id FROM orders ORDER BY id LIMIT 10',
	'SELECT * FROM orders ORDER BY id DESC LIMIT 10 OFFSET 20',
	'SELECT id FROM orders WHERE customer = 7 ORDER BY placed DESC, id',
	'SELECT id FROM orders WHERE customer = 7 ORDER BY placed, id DESC LIMIT 4',
	'SELECT * FROM orders ORDER BY customer, placed DESC, id LIMIT 10',
	'SELECT * FROM orders ORDER BY customer, amount LIMIT 10',
	'SELECT * FROM orders ORDER BY customer DESC, placed, note LIMIT 10',
	'SELECT ref FROM orders ORDER BY ref NULLS FIRST LIMIT 5',
	'SELECT ref FROM orders ORDER BY ref DESC NULLS LAST LIMIT 5',
	'SELECT amount FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 5',
	'SELECT placed, amount FROM orders WHERE placed > ''2025-05-01'' ORDER BY placed',
	'SELECT DISTINCT customer FROM orders ORDER BY customer LIMIT 8',
	'SELECT DISTINCT ON (customer) customer, placed FROM orders ORDER BY customer, placed DESC, id LIMIT 8',
	'SELECT customer, count(*), max(placed) FROM orders GROUP BY customer ORDER BY customer LIMIT 3',
	'SELECT placed, count(*) FROM orders WHERE placed < ''2024-01-10'' GROUP BY placed ORDER BY placed',
	'SELECT min(id), max(id) FROM orders',
	'SELECT min(placed) FROM orders WHERE customer = 12',
	'SELECT max(amount), min(ref) FROM orders',
	'SELECT (SELECT max(o.placed) FROM orders o WHERE o.customer = c.id) FROM customers c WHERE c.id < 5',
	'SELECT id, row_number() OVER (ORDER BY id) FROM orders LIMIT 5',
	'SELECT customer, rank() OVER (PARTITION BY customer ORDER BY placed DESC) FROM orders LIMIT 5',
	'SELECT id, lag(id) OVER (PARTITION BY customer ORDER BY placed DESC, id) FROM orders WHERE customer IN (1, 2)',
	'SELECT id FROM orders WHERE id < 10 UNION ALL SELECT id FROM customers WHERE id < 10 ORDER BY id']) q;

-- Joins as the planner likes them.
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT * FROM customers c JOIN orders o ON o.customer = c.id WHERE c.id = 17',
	'SELECT * FROM customers c JOIN orders o ON o.id = c.id WHERE c.region = 3 AND c.id < 50',
	'SELECT * FROM customers c JOIN orders o ON o.id = c.big WHERE c.big IN (3, 4)',
	'SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.ref = c.id WHERE c.id < 4',
	'SELECT o.id FROM orders o LEFT JOIN customers c ON c.id = o.customer WHERE o.id < 5',
	'SELECT o.id FROM orders o LEFT JOIN customers c ON c.big = o.customer WHERE o.id < 5',
	'SELECT o.id FROM orders o WHERE EXISTS (SELECT FROM customers c WHERE c.id = o.id) AND o.id < 9',
	'SELECT c.id FROM customers c WHERE NOT EXISTS (SELECT FROM orders o WHERE o.id = c.id)',
	'SELECT * FROM customers c, LATERAL (SELECT id FROM orders o WHERE o.customer = c.id ORDER BY placed DESC LIMIT 1) l WHERE c.id < 6',
	'SELECT c.id, p.name FROM customers c JOIN customers p ON p.id = c.parent WHERE p.id = 3 ORDER BY c.id',
	'SELECT o.id FROM orders o JOIN customers c ON c.id = o.id JOIN customers d ON d.big = c.id WHERE d.big < 20 ORDER BY o.id',
	'SELECT o.id FROM orders o WHERE o.customer IN (SELECT c.id FROM customers c WHERE c.region = 2 AND c.id < 30) ORDER BY 1']) q;

-- Merge joins: both sides sorted by an index, one type or two, with
-- incremental sort on top; full joins; a side that is restored to a mark.
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.id ORDER BY o.id',
	'SELECT o.id, c.name FROM orders o JOIN customers c ON c.big = o.id ORDER BY o.id LIMIT 10',
	'SELECT o.ref, c.big FROM orders o JOIN customers c ON c.id = o.ref ORDER BY o.ref LIMIT 10',
	'SELECT o.customer, c.name FROM orders o JOIN customers c ON c.id = o.customer ORDER BY o.customer, o.placed DESC LIMIT 10',
	'SELECT o.customer, c.name FROM orders o JOIN customers c ON c.id = o.customer ORDER BY c.id, o.amount LIMIT 10',
	'SELECT count(o.id), count(c.id) FROM orders o FULL JOIN customers c ON c.id = o.id',
	'SELECT count(*) FROM customers a JOIN customers b USING (id) JOIN orders o USING (id)',
	'SELECT count(*) FROM orders a JOIN orders b ON a.customer = b.customer WHERE b.customer < 9',
	'SELECT count(*) FROM customers c JOIN orders o ON c.region = o.customer AND c.id = o.id']) q;
RESET enable_hashjoin;
RESET enable_nestloop;

-- Partitions: pruned, appended in order, merged; inheritance.
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT * FROM events WHERE at = 1500',
	'SELECT at FROM events ORDER BY at LIMIT 5',
	'SELECT at FROM events WHERE at BETWEEN 990 AND 1010 ORDER BY at DESC',
	'SELECT at FROM events WHERE at > (SELECT 3990) ORDER BY at',
	'SELECT * FROM events WHERE kind = 7 ORDER BY at LIMIT 4',
	'SELECT * FROM events ORDER BY kind, at LIMIT 4',
	'SELECT max(at) FROM events',
	'SELECT e.at, c.id FROM customers c JOIN events e ON e.at = c.id * 4 WHERE c.id < 6',
	'SELECT * FROM base WHERE id = 77',
	'SELECT id FROM base ORDER BY id LIMIT 6',
	'SELECT min(id), max(id) FROM base',
	'SELECT b.* FROM customers c JOIN base b ON b.id = c.id WHERE c.region = 1 AND c.id < 30']) q;

SET enable_partitionwise_join = on;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT a.at FROM events a JOIN events b ON a.at = b.at WHERE a.at < 1200 AND b.kind = 7 ORDER BY a.at']) q;
RESET enable_partitionwise_join;

-- Index scans of other kinds than the cheapest.
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT count(*) FROM orders WHERE id < 500 AND customer = 17',
	'SELECT count(*) FROM orders WHERE note LIKE ''note 01%'' OR ref < 100',
	'SELECT id FROM orders WHERE customer = ANY (''{1,2,3}'') ORDER BY id']) q;
RESET enable_indexscan;
RESET enable_indexonlyscan;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT customer, sum(amount) FROM orders GROUP BY customer ORDER BY customer DESC',
	'SELECT placed, sum(amount) FROM orders GROUP BY placed ORDER BY placed LIMIT 4',
	'SELECT status, placed FROM orders ORDER BY placed DESC LIMIT 3']) q;
RESET enable_bitmapscan;
RESET enable_sort;

-- With parallel workers.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT count(*), sum(amount) FROM orders WHERE customer < 100',
	'SELECT id, amount FROM orders WHERE id > 100 ORDER BY id LIMIT 20',
	'SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer WHERE o.id < 4000']) q;

-- Row comparisons, which keyset pagination is made of.
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT count(*) FROM orders WHERE (placed, id) > (''2025-05-01'', 9800)']) q;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT customer, id FROM orders WHERE (customer, placed) >= (250, ''2024-02-01'') ORDER BY customer LIMIT 10',
	'SELECT placed, id FROM orders WHERE status = ''open'' AND (placed, id) > (''2024-03-01'', 1205) ORDER BY placed, id LIMIT 10',
	'SELECT placed, id FROM orders WHERE status = ''open'' AND (placed, id) < (''2024-03-01'', 1205) ORDER BY placed DESC, id DESC LIMIT 10',
	'SELECT placed, id FROM orders WHERE status = ''open'' AND (date ''2024-03-01'', bigint ''1205'') <= (placed, id) ORDER BY placed, id LIMIT 10',
	'SELECT region, id FROM customers WHERE (region, id) > (SELECT region, id FROM customers WHERE id = 333) ORDER BY region, id LIMIT 10',
	'SELECT kind, at FROM events WHERE (kind, at) > (50, 1000) ORDER BY kind, at LIMIT 10',
	'SELECT c.id, count(*) FROM customers c JOIN orders o ON (o.customer, o.placed) < (c.id, ''2024-02-01'') WHERE c.id < 4 GROUP BY c.id ORDER BY c.id']) q;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT count(*) FROM customers WHERE (region, id) <= (1, 100) AND id > 10',
	'SELECT count(*) FROM customers WHERE (region, id) <= (1, 100) OR id = 499']) q;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_seqscan;

-- What lies beyond the histogram is looked up at the ends of the index.
CALL twice($$
INSERT INTO orders SELECT i, 1, '2030-01-01' FROM generate_series(10001, 20000) i
$$);
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT count(*) FROM orders WHERE id > 9990',
	'SELECT count(*) FROM orders WHERE placed > ''2027-01-01''']) q;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT count(*) FROM orders o JOIN customers c ON c.id = o.id']) q;
RESET enable_hashjoin;
RESET enable_nestloop;

--
-- Our family passes for btree's as long as it holds every operator of btree's.
-- Else plans may be worse, but they work.
--
CREATE TYPE shade AS ENUM ('dark', 'dim', 'bright');
CREATE FUNCTION shade_cmp(a shade, b int) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql
	AS $$ BEGIN RETURN btint4cmp(array_position('{dark,dim,bright}', a), b); END $$;
CREATE FUNCTION shade_eq(a shade, b int) RETURNS boolean IMMUTABLE STRICT LANGUAGE plpgsql
	AS $$ BEGIN RETURN shade_cmp(a, b) = 0; END $$;
CREATE FUNCTION shade_lt(a shade, b shade) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'enum_lt';
CREATE FUNCTION shade_le(a shade, b shade) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'enum_le';
CREATE FUNCTION shade_eq(a shade, b shade) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'enum_eq';
CREATE FUNCTION shade_ge(a shade, b shade) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'enum_ge';
CREATE FUNCTION shade_gt(a shade, b shade) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'enum_gt';
CREATE OPERATOR <<< (FUNCTION = shade_lt, LEFTARG = shade, RIGHTARG = shade, COMMUTATOR = >>>);
CREATE OPERATOR <<= (FUNCTION = shade_le, LEFTARG = shade, RIGHTARG = shade, COMMUTATOR = >>=);
CREATE OPERATOR === (FUNCTION = shade_eq, LEFTARG = shade, RIGHTARG = shade, COMMUTATOR = ===, MERGES);
CREATE OPERATOR >>= (FUNCTION = shade_ge, LEFTARG = shade, RIGHTARG = shade);
CREATE OPERATOR >>> (FUNCTION = shade_gt, LEFTARG = shade, RIGHTARG = shade);
CREATE OPERATOR === (FUNCTION = shade_eq, LEFTARG = shade, RIGHTARG = int);
CREATE OPERATOR CLASS shade_ops FOR TYPE shade USING btree AS
	OPERATOR 1 <<<, OPERATOR 2 <<=, OPERATOR 3 ===, OPERATOR 4 >>=, OPERATOR 5 >>>,
	FUNCTION 1 (shade, shade) enum_cmp(anyenum, anyenum);
SELECT bunbtree_mirror_opclasses('{shade}') AS mirrored;
CALL twice($$
CREATE TABLE shades (s shade, n int) WITH (autovacuum_enabled = off);
INSERT INTO shades
	SELECT (ARRAY['dark', 'dim', 'bright'])[1 + i % 3]::shade, i FROM generate_series(1, 1000) i;
CREATE INDEX shades_s ON shades USING @am (s shade_ops, n);
$$);
CALL wait_for_horizon();
VACUUM (ANALYZE) bt.shades, bun.shades;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT q AS query, plans(q) FROM unnest(ARRAY[
	'SELECT count(*) FROM shades WHERE s <<< ''dim''',
	'SELECT s, n FROM shades WHERE s === ''dim'' ORDER BY s USING <<<, n LIMIT 3',
	'SELECT count(*) FROM shades a JOIN shades b ON a.s === b.s AND a.n = b.n']) q;

-- An operator that only btree's family has must not become an index condition.
-- The verdict is cached, and has to fall in a transaction that changes it.
CREATE FUNCTION conditions(query text) RETURNS SETOF text
LANGUAGE plpgsql
AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query
	LOOP
		IF line ~ ' using | on |Cond: |Filter: |Sort' THEN
			RETURN NEXT btrim(line);
		END IF;
	END LOOP;
END
$$;
PREPARE dim AS SELECT count(*) FROM bun.shades WHERE s === 2;
EXECUTE dim;
SELECT conditions('EXECUTE dim');
BEGIN;
ALTER OPERATOR FAMILY shade_ops USING btree ADD
	OPERATOR 3 === (shade, int), FUNCTION 1 (shade, int) shade_cmp(shade, int);
EXECUTE dim;
SELECT conditions('EXECUTE dim');
SELECT count(*) FROM bt.shades WHERE s === 2;
SELECT conditions('SELECT count(*) FROM bt.shades WHERE s === 2');
-- what does not need that operator
SELECT count(*), min(n), max(n) FROM bun.shades WHERE s === 'dim';
SELECT count(*) FROM bun.shades a JOIN bun.shades b ON a.s === b.s AND a.n = b.n;
SELECT s, n FROM bun.shades ORDER BY s USING <<<, n LIMIT 1;
-- and now ours has it, too
SELECT bunbtree_mirror_opclasses('{shade}') AS mirrored;
EXECUTE dim;
SELECT conditions('EXECUTE dim');
SELECT plans('SELECT count(*) FROM shades WHERE s === 2');
ROLLBACK;
EXECUTE dim;
SELECT conditions('EXECUTE dim');
DEALLOCATE dim;

-- A class whose family has no counterpart.
CREATE FUNCTION lonely_lt(int, int) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'int4lt';
CREATE FUNCTION lonely_eq(int, int) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'int4eq';
CREATE FUNCTION lonely_cmp(a int, b int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	query text := current_setting('lonely.query');
BEGIN
	-- show a plan, once
	IF query <> '' THEN
		PERFORM set_config('lonely.query', '', false);
		RAISE WARNING '%', (SELECT string_agg(c, ', ') FROM public.conditions(query) c);
	END IF;
	RETURN btint4cmp(a, b);
END
$$;
SET lonely.query = '';
CREATE OPERATOR <# (FUNCTION = lonely_lt, LEFTARG = int, RIGHTARG = int, RESTRICT = scalarltsel);
CREATE OPERATOR =# (FUNCTION = lonely_eq, LEFTARG = int, RIGHTARG = int, MERGES);
CREATE OPERATOR CLASS lonely_ops FOR TYPE int USING bunbtree AS
	OPERATOR 1 <#, OPERATOR 3 =#, FUNCTION 1 lonely_cmp(int, int);
CREATE INDEX shades_n ON bun.shades USING bunbtree (n lonely_ops);
SELECT count(*) FROM bun.shades WHERE n <# 100;
SELECT conditions('SELECT count(*) FROM bun.shades WHERE n <# 100');
SELECT s, n FROM bun.shades WHERE n =# 77 AND n = 77 ORDER BY n;

-- What is planned while the index is presented as btree, here by its own
-- comparison function: first without, then with a family of btree, which comes
-- first as it does when classes are mirrored.
SET lonely.query = 'SELECT n FROM bun.shades WHERE n OPERATOR(public.<#) 100 AND n < 100000 ORDER BY n';
SELECT bunbtree_check('bun.shades_n');
DROP OPERATOR FAMILY lonely_ops USING bunbtree CASCADE;
CREATE OPERATOR CLASS lonely_ops FOR TYPE int USING btree AS
	OPERATOR 1 <#, OPERATOR 3 =#, FUNCTION 1 lonely_cmp(int, int);
CREATE OPERATOR CLASS lonely_ops FOR TYPE int USING bunbtree AS
	OPERATOR 1 <#, OPERATOR 3 =#, FUNCTION 1 lonely_cmp(int, int);
SET lonely.query = '';
CREATE INDEX shades_n ON bun.shades USING bunbtree (n lonely_ops);
SET lonely.query = 'SELECT n FROM bun.shades WHERE n OPERATOR(public.<#) 100000 ORDER BY n USING OPERATOR(public.<#) LIMIT 1';
SELECT bunbtree_check('bun.shades_n');

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA bt, bun CASCADE;
DROP FUNCTION plans, conditions;
DROP FUNCTION lonely_lt, lonely_eq, lonely_cmp CASCADE;
DROP TYPE shade CASCADE;
