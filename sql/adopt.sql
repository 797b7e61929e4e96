--
-- Turning btree indexes into bunbtree ones and back.
--
SET client_min_messages = warning;
-- in case an earlier run was interrupted
DROP ROLE IF EXISTS regress_bunbtree_owner;
DROP ROLE IF EXISTS regress_bunbtree_user;
RESET client_min_messages;
CREATE SCHEMA adopt;
SET search_path = adopt, public;

-- All that catalogs know of the indexes of a table, but for what is to change:
-- access method, operator classes and the dependencies on those.
CREATE FUNCTION kept(tab regclass) RETURNS SETOF text
LANGUAGE sql
AS $$
	SELECT concat('class ', to_jsonb(c) - 'relam') FROM pg_class c
		WHERE oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab)
	UNION ALL
	SELECT concat('index ', to_jsonb(i) - 'indclass') FROM pg_index i
		WHERE indrelid = tab
	UNION ALL
	SELECT concat('attribute ', to_jsonb(a)) FROM pg_attribute a
		WHERE attrelid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab)
	UNION ALL
	SELECT concat('statistic ', starelid, staattnum, stawidth, stadistinct,
				  stavalues1::text, stanumbers1, stavalues2::text, stanumbers2)
		FROM pg_statistic
		WHERE starelid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab)
	UNION ALL
	SELECT concat('description ', to_jsonb(d)) FROM pg_description d
		WHERE objoid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab)
	UNION ALL
	SELECT concat('constraint ', to_jsonb(c)) FROM pg_constraint c
		WHERE conrelid = tab
	UNION ALL
	SELECT concat('depends ', to_jsonb(d)) FROM pg_depend d
		WHERE (objid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab)
			   OR refobjid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab))
			AND refclassid <> 'pg_opclass'::regclass
	UNION ALL
	SELECT concat('parent ', to_jsonb(h)) FROM pg_inherits h
		WHERE inhrelid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab)
$$;

-- Access methods and operator classes of the indexes of a table, and what they
-- depend on of these.
CREATE FUNCTION changed(tab regclass,
	OUT index regclass, OUT am name, OUT opclasses text, OUT depends_on text)
RETURNS SETOF record
LANGUAGE sql
AS $$
	SELECT i.indexrelid, a.amname,
		(SELECT string_agg(concat_ws(' ', opcname,
									 CASE WHEN opcmethod <> c.relam THEN 'of another AM' END),
						   ', ' ORDER BY n)
		 FROM unnest(i.indclass) WITH ORDINALITY u (opclass, n)
		 JOIN pg_opclass o ON o.oid = u.opclass),
		(SELECT string_agg(concat_ws(' ', opcname,
									 CASE WHEN opcmethod <> c.relam THEN 'of another AM' END),
						   ', ' ORDER BY opcname)
		 FROM pg_depend d JOIN pg_opclass o ON o.oid = d.refobjid
		 WHERE d.objid = i.indexrelid AND d.refclassid = 'pg_opclass'::regclass)
	FROM pg_index i
	JOIN pg_class c ON c.oid = i.indexrelid
	JOIN pg_am a ON a.oid = c.relam
	WHERE i.indrelid = tab
	ORDER BY c.relname
$$;

-- Runs a command; the error that it raises, with detail and hint.
CREATE FUNCTION refused(command text,
	OUT code text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql
AS $$
BEGIN
	EXECUTE command;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = returned_sqlstate, message = message_text,
		detail = pg_exception_detail, hint = pg_exception_hint;
END
$$;

--
-- Indexes of all kinds.
--
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text, c text COLLATE "C",
	d int UNIQUE DEFERRABLE INITIALLY DEFERRED, e numeric, u uuid,
	EXCLUDE USING btree (id WITH =))
	WITH (autovacuum_enabled = off);
INSERT INTO t
	SELECT i, i % 100, 'b' || i, 'c' || i % 10, i, i / 7.0, md5(i::text)::uuid
	FROM generate_series(1, 3000) i;
CREATE INDEX t_a ON t (a) WITH (fillfactor = 70, deduplicate_items = off);
CREATE INDEX t_ab ON t (a DESC NULLS LAST, b text_pattern_ops);
CREATE INDEX t_aa ON t (a, d, id) INCLUDE (b, u);
CREATE INDEX t_expr ON t (lower(b), (a + d));
CREATE INDEX t_part ON t (c) WHERE a < 50;
CREATE UNIQUE INDEX t_u ON t (u);
CREATE UNIQUE INDEX t_replident ON t (a, id);
CREATE INDEX t_cluster ON t (e);
ALTER TABLE t CLUSTER ON t_cluster;
ALTER INDEX t_expr ALTER COLUMN 1 SET STATISTICS 500;
COMMENT ON INDEX t_a IS 'to be kept';
COMMENT ON CONSTRAINT t_pkey ON t IS 'to be kept, too';
ANALYZE t;

CREATE TEMP TABLE before AS SELECT k FROM kept('t') k;
CREATE TEMP TABLE before_changed AS SELECT * FROM changed('t');
SELECT count(*) > 50 AS something_to_compare FROM before;

SELECT relname, bunbtree_adopt_refusal(indexrelid) AS refusal
	FROM pg_index JOIN pg_class c ON c.oid = indexrelid
	WHERE indrelid = 't'::regclass ORDER BY relname;
SELECT bunbtree_adopt(indexrelid) IS NOT NULL AS adopted, count(*)
	FROM pg_index WHERE indrelid = 't'::regclass GROUP BY 1;
SELECT * FROM changed('t');
-- No rebuild, and nothing is lost.
(TABLE before EXCEPT ALL SELECT kept('t')) UNION ALL (SELECT kept('t') EXCEPT ALL TABLE before);

-- They are bunbtree indexes: churned, checked, read, rebuilt.
INSERT INTO t
	SELECT i, i % 100, 'b' || i, 'c' || i % 10, i, i / 7.0, md5(i::text)::uuid
	FROM generate_series(3001, 6000) i;
DELETE FROM t WHERE id % 3 = 0;
VACUUM t;
INSERT INTO t
	SELECT i, i % 100, 'b' || i, 'c' || i % 10, i, i / 7.0, md5(i::text)::uuid
	FROM generate_series(3, 6000, 3) i;
SELECT check_indexes('adopt');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE lower(b) = 'b17';
SELECT id, a, b, c, d FROM t WHERE lower(b) = 'b17';
SELECT count(*) FROM t WHERE a = 3 AND b LIKE 'b1%';
RESET enable_seqscan;
RESET enable_bitmapscan;
-- Constraints are what they were.
INSERT INTO t VALUES (1, 1, 'x', 'x', 7000, 1, NULL);
BEGIN;
INSERT INTO t VALUES (7000, 1, 'x', 'x', 1, 1, NULL);
COMMIT;
BEGIN;
INSERT INTO t VALUES (7000, 1, 'x', 'x', 1, 1, NULL);
UPDATE t SET d = 7000 WHERE id = 1;
COMMIT;
CREATE TABLE t_like (LIKE t INCLUDING ALL);
REINDEX TABLE t;
CLUSTER t;
SELECT check_indexes('adopt');
DROP TABLE t_like;

-- And back.
TRUNCATE before;
INSERT INTO before SELECT kept('t');
SELECT bunbtree_release(indexrelid) IS NOT NULL AS released, count(*)
	FROM pg_index WHERE indrelid = 't'::regclass GROUP BY 1;
(TABLE before EXCEPT ALL SELECT kept('t')) UNION ALL (SELECT kept('t') EXCEPT ALL TABLE before);
(TABLE before_changed EXCEPT ALL SELECT * FROM changed('t'))
UNION ALL (SELECT * FROM changed('t') EXCEPT ALL TABLE before_changed);
SELECT count(bt_index_parent_check(indexrelid, true, true))
	FROM pg_index WHERE indrelid = 't'::regclass;
INSERT INTO t VALUES (8000, 1, 'b8000', 'x', 8000, 1, NULL);

-- Once more is no harm.
SELECT bunbtree_release('t_a');
SELECT bunbtree_adopt('t_a');
SELECT bunbtree_adopt('t_a');
SELECT bunbtree_release('t_a');

--
-- Storage parameters.
--
SELECT bunbtree_adopt('t_a');
ALTER INDEX t_a SET (bottomup = hinted, heap_blocks = 7, fillfactor = 60);
SELECT bunbtree_release('t_a');
SELECT reloptions FROM pg_class WHERE relname = 't_a';
SELECT bunbtree_adopt('t_part');
ALTER INDEX t_part SET (heap_blocks = 7);
SELECT bunbtree_release('t_part');
SELECT reloptions IS NULL AS none FROM pg_class WHERE relname = 't_part';
-- Ours are not for the index of a constraint that a dump restores as btree.
SELECT bunbtree_adopt('t_pkey'), bunbtree_adopt('t_d_key'), bunbtree_adopt('t_id_excl');
ALTER INDEX t_pkey SET (bottomup = off);
ALTER INDEX t_d_key SET (fillfactor = 80, heap_blocks = 1);
ALTER INDEX t_d_key SET (fillfactor = 80, deduplicate_items = off);
ALTER INDEX t_pkey RENAME TO t_primary;
ALTER INDEX t_primary RENAME TO t_pkey;
ALTER INDEX t_id_excl SET (bottomup = off);
SELECT relname, reloptions FROM pg_class
	WHERE relname IN ('t_pkey', 't_d_key', 't_id_excl') ORDER BY 1;

--
-- What a dump restores as btree is recorded.
--
TABLE bunbtree_adopted;
ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id);
ALTER TABLE t RENAME CONSTRAINT t_d_key TO t_d_renamed;
SELECT * FROM bunbtree_readopt();
SELECT index, am FROM changed('t') WHERE index::text IN ('t_pkey', 't_d_renamed');
-- The new name is recorded when asked for.
SELECT bunbtree_adopt('t_d_renamed');
DELETE FROM bunbtree_adopted WHERE indexname = 't_d_key';
SELECT * FROM bunbtree_readopt();
SELECT bunbtree_release('t_pkey'), bunbtree_release('t_d_renamed'), bunbtree_release('t_id_excl');
SELECT * FROM bunbtree_readopt();
-- The record itself.
SELECT bunbtree_adopt('bunbtree_adopted_pkey');
SELECT bunbtree_adopt('t_pkey');
TABLE bunbtree_adopted;
SELECT bunbtree_release('t_pkey');
SELECT bunbtree_release('bunbtree_adopted_pkey');
TABLE bunbtree_adopted;

--
-- Tables.
--
CREATE INDEX t_hash ON t USING hash (a);
SELECT * FROM bunbtree_adopt_table('t');
SELECT * FROM bunbtree_adopt_table('t') WHERE index::text ~ '^t_a';
SELECT count(bunbtree_release(index)) FROM changed('t') WHERE am = 'bunbtree';
CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
CREATE INDEX m_a ON m (a);
SELECT * FROM bunbtree_adopt_table('m');
REFRESH MATERIALIZED VIEW m;
CREATE VIEW v AS SELECT * FROM t;
SELECT * FROM refused('SELECT bunbtree_adopt_table(''v'')');
SELECT * FROM refused('SELECT bunbtree_adopt_table(''t_a'')');
SELECT * FROM refused('SELECT bunbtree_adopt_table(''pg_class'')');
SELECT * FROM refused('SELECT bunbtree_adopt_table(1)');
DROP MATERIALIZED VIEW m;

--
-- Refusals.
--
SELECT * FROM refused('SELECT bunbtree_adopt(''t'')');
SELECT * FROM refused('SELECT bunbtree_adopt(1)');
SELECT * FROM refused('SELECT bunbtree_adopt(''t_hash'')');
SELECT * FROM refused('SELECT bunbtree_release(''t_hash'')');
SELECT * FROM refused('SELECT bunbtree_adopt(''pg_class_oid_index'')');
DO $$
DECLARE
	toast regclass := (SELECT indexrelid FROM pg_index JOIN pg_class t ON indrelid = reltoastrelid
					   WHERE t.oid = 'adopt.t'::regclass);
BEGIN
	PERFORM bunbtree_adopt(toast);
EXCEPTION WHEN feature_not_supported THEN
	RAISE NOTICE '%', regexp_replace(sqlerrm, '\d+', 'N');
END
$$;
SELECT bunbtree_adopt_refusal('t'), bunbtree_adopt_refusal(1), bunbtree_adopt_refusal('t_hash');

-- A class without counterpart, and families that differ.
CREATE FUNCTION int4cmp(int, int) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE OPERATOR CLASS odd_ops FOR TYPE int USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 int4cmp(int, int);
CREATE INDEX t_odd ON t (a, b, d odd_ops);
SELECT * FROM refused('SELECT bunbtree_adopt(''t_odd'')');
CREATE OPERATOR CLASS odd_ops FOR TYPE int USING bunbtree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 btint4cmp(int, int);
SELECT message FROM refused('SELECT bunbtree_adopt(''t_odd'')');
DROP OPERATOR FAMILY odd_ops USING bunbtree;
SELECT bunbtree_mirror_opclasses('{int}');
BEGIN;
ALTER OPERATOR FAMILY odd_ops USING btree ADD OPERATOR 3 = (int, bigint);
SELECT message FROM refused('SELECT bunbtree_adopt(''t_odd'')');
ROLLBACK;
SELECT bunbtree_adopt('t_odd');
SELECT * FROM changed('t') WHERE index = 't_odd'::regclass;
SELECT bunbtree_check('t_odd', true, true);
-- On the way back, too.
BEGIN;
ALTER OPERATOR FAMILY odd_ops USING bunbtree ADD OPERATOR 3 = (int, bigint);
SELECT * FROM refused('SELECT bunbtree_release(''t_odd'')');
ROLLBACK;
SELECT bunbtree_release('t_odd');
DROP INDEX t_odd;
DROP OPERATOR FAMILY odd_ops USING bunbtree;
DROP OPERATOR FAMILY odd_ops USING btree;

-- Invalid: what a CREATE UNIQUE INDEX CONCURRENTLY has left.
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY t_invalid ON t (a);
\set VERBOSITY default
SELECT * FROM refused('SELECT bunbtree_adopt(''t_invalid'')');
SELECT bunbtree_adopt_refusal('t_invalid');
DROP INDEX t_invalid;

-- In use in this session.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id;
FETCH c;
SELECT bunbtree_adopt('t_a');
ROLLBACK;
SELECT bunbtree_adopt('t_a') FROM t LIMIT 1;
BEGIN;
INSERT INTO t VALUES (9001, 1, 'x', 'x', 1, 1, NULL);
SELECT bunbtree_adopt('t_a');
ROLLBACK;
-- New in this transaction.
BEGIN;
CREATE INDEX t_new ON t (a);
SELECT bunbtree_adopt('t_new');
ROLLBACK;
BEGIN;
REINDEX INDEX t_a;
SELECT * FROM bunbtree_adopt_table('t') WHERE index = 't_a'::regclass;
ROLLBACK;
BEGIN READ ONLY;
SELECT bunbtree_adopt('t_a');
ROLLBACK;

-- Who may.
CREATE ROLE regress_bunbtree_owner;
CREATE ROLE regress_bunbtree_user;
GRANT USAGE ON SCHEMA adopt TO regress_bunbtree_owner, regress_bunbtree_user;
CREATE TABLE owned (a int PRIMARY KEY, b int);
CREATE INDEX owned_b ON owned (b);
ALTER TABLE owned OWNER TO regress_bunbtree_owner;
SET ROLE regress_bunbtree_user;
SELECT bunbtree_adopt('owned_b');
SELECT bunbtree_release('owned_b');
SELECT bunbtree_adopt_table('owned');
SELECT bunbtree_adopt_refusal('owned_b');
SELECT bunbtree_readopt();
TABLE bunbtree_adopted;
INSERT INTO bunbtree_adopted VALUES ('adopt', 't', 't_pkey');
SET ROLE regress_bunbtree_owner;
SELECT * FROM bunbtree_adopt_table('owned');
SELECT bunbtree_adopt('owned_pkey');
TABLE bunbtree_adopted;
SELECT bunbtree_release('owned_pkey');
SELECT bunbtree_release('owned_b');
RESET ROLE;
DROP TABLE owned;
REVOKE USAGE ON SCHEMA adopt FROM regress_bunbtree_owner, regress_bunbtree_user;
DROP ROLE regress_bunbtree_owner, regress_bunbtree_user;

--
-- Transactions.
--
BEGIN;
SELECT bunbtree_adopt('t_a');
INSERT INTO t VALUES (9001, 1, 'x', 'x', 9001, 1, NULL);
SELECT count(*) FROM changed('t') WHERE am = 'bunbtree';
ROLLBACK;
SELECT count(*) FROM changed('t') WHERE am = 'bunbtree';
INSERT INTO t VALUES (9001, 1, 'x', 'x', 9001, 1, NULL);
BEGIN;
SAVEPOINT s;
SELECT bunbtree_adopt('t_a'), bunbtree_adopt('t_pkey');
INSERT INTO t VALUES (9002, 1, 'x', 'x', 9002, 1, NULL);
ROLLBACK TO s;
INSERT INTO t VALUES (9002, 1, 'x', 'x', 9002, 1, NULL);
SELECT bunbtree_adopt('t_ab');
INSERT INTO t VALUES (9003, 1, 'x', 'x', 9003, 1, NULL);
SAVEPOINT s;
SELECT bunbtree_release('t_ab');
INSERT INTO t VALUES (9004, 1, 'x', 'x', 9004, 1, NULL);
ROLLBACK TO s;
INSERT INTO t VALUES (9004, 1, 'x', 'x', 9004, 1, NULL);
SET CONSTRAINTS ALL IMMEDIATE;
SELECT bunbtree_adopt('t_u');
REINDEX INDEX t_u;
COMMIT;
INSERT INTO t VALUES (9005, 1, 'x', 'x', 9005, 1, NULL);
SELECT index, am FROM changed('t') WHERE am = 'bunbtree';
TABLE bunbtree_adopted;
SELECT bunbtree_check('t_ab', true, true), bunbtree_check('t_u', true, true);

-- Plans of functions.
CREATE FUNCTION plans() RETURNS SETOF text
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
	n bigint;
	line text;
BEGIN
	FOR i IN 1 .. 4 LOOP
		SELECT count(*) INTO n FROM t WHERE e BETWEEN i AND i + 10;
		UPDATE t SET e = e WHERE id = i;
		SELECT sum(1) INTO n FROM t WHERE (e, id) > (n, 0);
		SET CONSTRAINTS ALL IMMEDIATE;
		IF i % 2 = 1 THEN
			PERFORM bunbtree_adopt('t_cluster');
		ELSE
			PERFORM bunbtree_release('t_cluster');
		END IF;
		RETURN NEXT (SELECT am FROM changed('t') WHERE index = 't_cluster'::regclass) || ' ' || n;
	END LOOP;
END
$$;
SELECT * FROM plans();

--
-- Partitioned indexes: all or none.
--
CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (a);
CREATE TABLE p21 PARTITION OF p2 FOR VALUES FROM (10) TO (20);
CREATE INDEX p_a ON p (a, b) WITH (fillfactor = 80);
CREATE INDEX p1_b ON p1 (b);
INSERT INTO p SELECT i, i FROM generate_series(0, 19) i;
SELECT * FROM refused('SELECT bunbtree_adopt(''p1_a_b_idx'')');
SELECT * FROM refused('SELECT bunbtree_adopt(''p2_a_b_idx'')');
SELECT bunbtree_adopt_refusal('p21_a_b_idx'), bunbtree_adopt_refusal('p_a');
SELECT * FROM bunbtree_adopt_table('p1');
SELECT * FROM bunbtree_adopt_table('p');
SELECT index, am, opclasses, depends_on
	FROM unnest('{p,p1,p2,p21}'::regclass[]) t, changed(t);
-- New partitions follow.
CREATE TABLE p22 PARTITION OF p2 FOR VALUES FROM (20) TO (30);
CREATE TABLE p3 (a int, b text);
CREATE INDEX p3_btree ON p3 (a, b);
CREATE INDEX p3_adopted ON p3 (a, b);
SELECT bunbtree_adopt('p3_adopted');
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (30) TO (40);
SELECT inhrelid::regclass, inhparent::regclass FROM pg_inherits
	WHERE inhparent = 'p_a'::regclass ORDER BY inhseqno, inhrelid;
INSERT INTO p SELECT i, i FROM generate_series(0, 39) i;
SELECT count(*) FROM p WHERE a = 35;
SELECT * FROM refused('SELECT bunbtree_release(''p1_a_b_idx'')');
ALTER INDEX p1_a_b_idx SET (bottomup = off);
SELECT bunbtree_release('p_a');
SELECT relname, reloptions, amname FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE c.oid IN (SELECT relid FROM pg_partition_tree('p_a')) ORDER BY 1;
-- Not while one of them is invalid or missing, nor constraints.
CREATE INDEX p_b ON ONLY p (b);
SELECT * FROM refused('SELECT bunbtree_adopt(''p_b'')');
DELETE FROM p;
ALTER TABLE p ADD PRIMARY KEY (a, b);
SELECT * FROM refused('SELECT bunbtree_adopt(''p_pkey'')');

SET client_min_messages = warning;
DROP SCHEMA adopt CASCADE;
