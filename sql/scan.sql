--
-- Reading: every way of scanning a btree, compared with btree.
--
-- No plan shall change because autovacuum or autoanalyze came by.
SET client_min_messages = warning;
CREATE SCHEMA bt;
CREATE SCHEMA bun;

--
-- One column
--
CALL twice($$
CREATE TABLE one (id int, a int)
	WITH (autovacuum_enabled = off);
INSERT INTO one
	SELECT i, CASE WHEN i % 17 <> 0 THEN (i * 7919) % 500 END
	FROM generate_series(1, 1000) i;
CREATE INDEX one_a ON one USING @am (a);
$$);
VACUUM (ANALYZE) bt.one, bun.one;

-- The kinds of index scan.
SELECT * FROM compare('index', 'SELECT * FROM one WHERE a > 250 ORDER BY a, id');
SELECT * FROM compare('indexonly', 'SELECT a FROM one WHERE a > 250 ORDER BY a');
SELECT * FROM compare('bitmap', 'SELECT a FROM one WHERE a > 250 ORDER BY a');

-- The comparison operators, a range, IN lists, NULLs.
SELECT * FROM compare('index',
	'SELECT * FROM one WHERE a = 77 ORDER BY id',
	'SELECT * FROM one WHERE a < 77 ORDER BY id',
	'SELECT * FROM one WHERE a >= 77 ORDER BY id',
	'SELECT * FROM one WHERE a > 77 AND a <= 99 ORDER BY id',
	'SELECT * FROM one WHERE a > 77 AND a < 50 ORDER BY id',
	'SELECT * FROM one WHERE a BETWEEN 400 AND 10000000000 ORDER BY id',
	'SELECT * FROM one WHERE a IN (3, 1, 4, 1, 5, 9, 2, 6, 1000000, NULL) ORDER BY id',
	'SELECT * FROM one WHERE a < ANY (''{3, 100, 7}'') ORDER BY id',
	'SELECT * FROM one WHERE a IS NULL ORDER BY id',
	'SELECT * FROM one WHERE a = (SELECT NULL::int) ORDER BY id',
	'SELECT * FROM one WHERE a = bigint ''77'' ORDER BY id');

-- Forward and backward, NULLs at the end that the scan gives them; smallest
-- and largest key, for which only the ends of the index are read.
SELECT * FROM compare('indexonly',
	'SELECT a FROM one ORDER BY a',
	'SELECT a FROM one ORDER BY a DESC',
	'SELECT a FROM one WHERE a > 100 ORDER BY a LIMIT 10',
	'SELECT a FROM one WHERE a < 100 ORDER BY a DESC LIMIT 10 OFFSET 50',
	'SELECT a FROM one WHERE a IN (99, 7, 300) ORDER BY a DESC',
	'SELECT min(a), max(a) FROM one');

-- A cursor moves to and fro.
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
DECLARE on_btree SCROLL CURSOR FOR
	SELECT a FROM bt.one WHERE a >= 77 AND a < 82 ORDER BY a;
DECLARE on_bunbtree SCROLL CURSOR FOR
	SELECT a FROM bun.one WHERE a >= 77 AND a < 82 ORDER BY a;
FETCH 4 FROM on_btree;
FETCH 4 FROM on_bunbtree;
FETCH BACKWARD 2 FROM on_btree;
FETCH BACKWARD 2 FROM on_bunbtree;
FETCH LAST FROM on_btree;
FETCH LAST FROM on_bunbtree;
FETCH BACKWARD ALL FROM on_btree;
FETCH BACKWARD ALL FROM on_bunbtree;
COMMIT;

-- A merge join whose inner side has to go back to the start of equal keys:
-- the scan marks a position and restores it.
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SELECT * FROM compare('index',
	'SELECT x.a, x.id, y.id FROM one x JOIN one y ON x.a = y.a ORDER BY x.a');
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;

-- A nested loop rescans the inner index with each key.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
SELECT * FROM compare('index',
	'SELECT x.id, y.id FROM one x JOIN one y ON y.a = x.a + 1 WHERE x.a < 40 ORDER BY 1, 2');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_memoize;
RESET enable_material;

-- Two indexes combined by bitmaps.
CALL twice($$
CREATE TABLE two (a int, b numeric, pad text)
	WITH (autovacuum_enabled = off);
INSERT INTO two
	SELECT (i * 7919) % 500, (i * 37 % 1009) / 8.0, repeat('-', 1000)
	FROM generate_series(1, 1000) i;
CREATE INDEX two_a ON two USING @am (a);
CREATE INDEX two_b ON two USING @am (b);
ANALYZE two;
$$);
SELECT * FROM compare('bitmap',
	'SELECT a, b FROM two WHERE a < 50 AND b < 12.5 ORDER BY a, b',
	'SELECT a, b FROM two WHERE a < 5 OR b < 2 ORDER BY a, b');

--
-- Several columns, each with its own direction and place of NULLs
--
CALL twice($$
CREATE TABLE many (a int, b text, c int)
	WITH (autovacuum_enabled = off);
INSERT INTO many
	SELECT CASE WHEN i % 23 <> 0 THEN i % 10 END,
		   CASE WHEN i % 29 <> 0 THEN 'b' || (i / 10) % 12 END,
		   CASE WHEN i % 31 <> 0 THEN i END
	FROM generate_series(1, 1500) i;
CREATE INDEX many_abc ON many USING @am (a DESC, b ASC NULLS FIRST, c DESC NULLS LAST);
$$);
VACUUM (ANALYZE) bt.many, bun.many;

SELECT * FROM compare('indexonly',
	'SELECT * FROM many ORDER BY a DESC, b NULLS FIRST, c DESC NULLS LAST',
	'SELECT * FROM many ORDER BY a, b DESC NULLS LAST, c NULLS FIRST',
	'SELECT * FROM many WHERE a = 3 ORDER BY b NULLS FIRST, c DESC NULLS LAST',
	'SELECT * FROM many WHERE a = 3 AND b > ''b5'' ORDER BY b, c DESC NULLS LAST',
	'SELECT * FROM many WHERE a = 3 AND b = ''b5'' AND c < 1000 ORDER BY c DESC',
	'SELECT * FROM many WHERE a IS NULL AND b IS NULL ORDER BY c DESC NULLS LAST',
	'SELECT * FROM many WHERE a IS NULL AND b > ''b7'' ORDER BY b, c DESC NULLS LAST');


-- Conditions that skip the first column, lists in several columns, row
-- comparisons, rows grouped and made distinct: which plan they get depends on the
-- server's version, the result does not.
SELECT same('any',
	'SELECT * FROM many WHERE b = ''b3'' AND c > 700 ORDER BY a, b, c',
	'SELECT * FROM many WHERE c IN (5, 500, 1005) ORDER BY a, b, c',
	'SELECT * FROM many WHERE a IN (1, 5, 9) AND b IN (''b1'', ''b11'') ORDER BY a, b, c',
	'SELECT * FROM many WHERE (a, b, c) <= (1, ''b3'', 700) ORDER BY a, b, c',
	'SELECT * FROM many WHERE a = 4 AND (b, c) >= (''b9'', 100) ORDER BY a, b, c',
	'SELECT DISTINCT a, b FROM many ORDER BY a DESC, b NULLS FIRST',
	'SELECT a, count(*), min(c), max(c) FROM many GROUP BY a ORDER BY a DESC');

--
-- Collations
--
CALL twice($$
CREATE TABLE words (w text, v varchar(20) COLLATE "C")
	WITH (autovacuum_enabled = off);
INSERT INTO words
	SELECT s, s
	FROM generate_series(1, 200) i,
		 LATERAL (VALUES ('word' || i), ('WORD' || i), ('wo-rd' || i)) t(s);
CREATE INDEX words_default ON words USING @am (w);
CREATE INDEX words_c ON words USING @am (w COLLATE "C");
CREATE INDEX words_pattern ON words USING @am (w text_pattern_ops);
CREATE INDEX words_v ON words USING @am (v DESC);
ANALYZE words;
$$);

SELECT * FROM compare('index',
	'SELECT w FROM words WHERE w COLLATE "C" >= ''wo'' ORDER BY w COLLATE "C"',
	'SELECT w FROM words WHERE w COLLATE "C" < ''WORD2'' ORDER BY w COLLATE "C" DESC',
	'SELECT w FROM words WHERE w ~>=~ ''wo-rd'' AND w ~<~ ''wo-re'' ORDER BY w USING ~<~',
	'SELECT v FROM words WHERE v > ''wo'' ORDER BY v DESC');
-- How many words come after "wo" is for the database's collation to say.
SELECT same('any',
	'SELECT w FROM words WHERE w >= ''wo'' ORDER BY w',
	'SELECT w FROM words WHERE w LIKE ''WORD1%'' ORDER BY w COLLATE "C"');

-- A nondeterministic collation, on servers that have ICU.  Deduplication must
-- leave keys alone that are equal without being the same.
SELECT EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu')
	   AND getdatabaseencoding() = 'UTF8' AS has_icu \gset
\if :has_icu
CREATE COLLATION ignore_case
	(provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CALL twice($$
CREATE TABLE cases (w text COLLATE ignore_case);
CREATE INDEX cases_w ON cases USING @am (w);
INSERT INTO cases SELECT w FROM words;
CREATE TABLE cases_unique (w text COLLATE ignore_case);
CREATE UNIQUE INDEX cases_unique_w ON cases_unique USING @am (w);
INSERT INTO cases_unique VALUES ('word'), ('wo-rd');
$$);
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT * FROM compare('index',
			'SELECT w FROM cases WHERE w = ''wOrD7'' ORDER BY w COLLATE "C"',
			'SELECT w FROM cases ORDER BY w, w COLLATE "C"')
	LOOP
		IF r.scans IS NULL OR r.count NOT IN (2, 600) OR NOT r.same THEN
			RAISE EXCEPTION 'unexpected: %', r;
		END IF;
	END LOOP;

	BEGIN
		INSERT INTO bun.cases_unique VALUES ('WORD');
		RAISE EXCEPTION 'duplicate of other case was accepted';
	EXCEPTION WHEN unique_violation THEN
	END;

	PERFORM check_indexes('bun');
END
$$;
CALL twice('DROP TABLE cases, cases_unique');
-- The pattern classes compare bytes, but their "=" goes by the collation.  An
-- index that has both would miss rows.
DO $$
DECLARE
	definition text;
	am text;
	refusals text[];
BEGIN
	CREATE TABLE bun.cases (t text COLLATE ignore_case, v varchar COLLATE ignore_case,
							c char(9) COLLATE ignore_case, d text COLLATE "C");
	FOREACH definition IN ARRAY '{t text_pattern_ops, v varchar_pattern_ops,
		c bpchar_pattern_ops, "d, t text_pattern_ops", "d COLLATE ignore_case text_pattern_ops",
		"lower(t) text_pattern_ops", d text_pattern_ops, "t COLLATE \"C\" text_pattern_ops",
		"d) INCLUDE (t"}'::text[]
	LOOP
		refusals := '{}';
		FOREACH am IN ARRAY '{btree,bunbtree}'::text[]
		LOOP
			BEGIN
				EXECUTE format('CREATE INDEX ON bun.cases USING %s (%s)', am, definition);
				refusals := refusals || 'none'::text;
			EXCEPTION WHEN feature_not_supported THEN
				refusals := refusals || sqlerrm;
			END;
		END LOOP;
		IF refusals[1] <> refusals[2] OR (refusals[1] = 'none') <> (definition ~ '^(d text|d\)|t COLLATE)') THEN
			RAISE EXCEPTION '%: %', definition, refusals;
		END IF;
	END LOOP;
	-- A partitioned index has nothing to build; its partitions' have.
	CREATE TABLE bun.cases_parted (t text COLLATE ignore_case) PARTITION BY LIST (t);
	CREATE INDEX ON bun.cases_parted USING bunbtree (t text_pattern_ops);
	BEGIN
		CREATE TABLE bun.cases_part PARTITION OF bun.cases_parted DEFAULT;
		RAISE EXCEPTION 'index of a partition was accepted';
	EXCEPTION WHEN feature_not_supported THEN
	END;
	DROP TABLE bun.cases, bun.cases_parted;
END
$$;
DROP COLLATION ignore_case;
\endif

--
-- Parallel scans
--
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM compare('index', 'SELECT count(*), sum(a) FROM one WHERE a > 5');
SELECT * FROM compare('indexonly', 'SELECT count(*), sum(a) FROM one WHERE a > 5');
SELECT * FROM compare('bitmap', 'SELECT id, a FROM one WHERE a > 5 ORDER BY id');
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
RESET max_parallel_workers_per_gather;

--
-- Equal keys: posting lists that fill several pages
--
CALL twice($$
CREATE TABLE equal (id int, a int, b int)
	WITH (autovacuum_enabled = off);
CREATE INDEX equal_a ON equal USING @am (a);
CREATE INDEX equal_b ON equal USING @am (b);
INSERT INTO equal SELECT i, i % 3, nullif(i % 2, 0) FROM generate_series(1, 5000) i;
DELETE FROM equal WHERE a = 1;
$$);
VACUUM (ANALYZE) bt.equal, bun.equal;
CALL twice('INSERT INTO equal SELECT -i, i % 2, NULL FROM generate_series(1, 1000) i');
SELECT * FROM compare('index',
	'SELECT * FROM equal WHERE a = 0 ORDER BY id',
	'SELECT * FROM equal WHERE a = 1 ORDER BY id',
	'SELECT * FROM equal WHERE b = 1 ORDER BY id',
	'SELECT * FROM equal WHERE b IS NULL ORDER BY id');

--
-- Wide keys: few on a page, several levels, inner pages whose keys are
-- truncated
--
CALL twice($$
CREATE TABLE wide (n int, k text)
	WITH (autovacuum_enabled = off);
ALTER TABLE wide ALTER k SET STORAGE EXTERNAL;
CREATE INDEX wide_k ON wide USING @am (k);
INSERT INTO wide
	SELECT i % 97, repeat(chr(65 + i % 7), 1000) || to_char(i * 7919 % 1000, '000') || repeat('-', 1500)
	FROM generate_series(1, 300) i;
ANALYZE wide;
$$);
SELECT * FROM compare('indexonly',
	'SELECT md5(k) FROM wide WHERE k > ''C'' ORDER BY k',
	'SELECT md5(k) FROM wide ORDER BY k DESC LIMIT 100');

SELECT check_indexes('bun');
DROP SCHEMA bt, bun CASCADE;
