--
-- Every type that btree can index: two copies of a table, one with an index of
-- each access method, give the same rows in the same order.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS bunbtree;
CREATE SCHEMA types_test;
SET search_path = types_test, public;

-- Nothing but index scans.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- The made-up costs of scans that are off would invite it to every query.
SET jit = off;

-- Dates and moments compare as they do here.
SET timezone = 'UTC';

--
-- Types that only a user can make.
--
CREATE TYPE mood AS ENUM ('zealous', 'calm', 'angry');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN even AS integer CHECK (VALUE % 2 = 0);
CREATE TYPE textrange AS RANGE (subtype = text);

--
-- A few values for each type, extremes and near misses among them.
--
CREATE TABLE samples (type text PRIMARY KEY, vals text[]);
INSERT INTO samples VALUES
	-- truth, bytes and characters
	('bool', '{f,t}'),
	('bytea', ARRAY['', '\x00', '\x0001', '\xff', 'abc']),
	('"char"', ARRAY['', 'A', 'a', '\377']),
	('text', ARRAY['', ' ', 'a', 'A', 'ab', 'b', '10', '9', repeat('x', 100)]),
	('varchar', ARRAY['', 'a', 'A', 'a ', 'ab', '%', '_']),
	('bpchar', ARRAY['', 'a', 'A', 'a  ', 'ab', 'b']),
	('name', ARRAY['', 'a', 'A', 'ab', repeat('n', 63)]),
	('bit', '{0,1}'),
	('varbit', '{"",0,1,00,01,0000000011111111}'),
	-- numbers
	('int2', '{-32768,-1,0,1,32767}'),
	('int4', '{-2147483648,-1,0,1,32768,2147483647}'),
	('int8', '{-9223372036854775808,-1,0,1,2147483648,9223372036854775807}'),
	('float4', '{-Infinity,-1,-0,0,1e-30,1.1,1e30,Infinity,NaN}'),
	('float8', '{-Infinity,-1,-0,0,1e-300,1.1,1e300,Infinity,NaN}'),
	('numeric', '{-Infinity,-1e100,-1,0,1,1.0,1.10,1e100,Infinity,NaN}'),
	('money', '{-1.23,0,0.01,92233720368547758.07}'),
	-- dates and times
	('date', '{-infinity,4713-01-01 BC,1999-12-31,2000-01-01,infinity}'),
	('time', '{00:00,12:30:00.000001,12:30,24:00}'),
	('timetz', '{00:00+00,12:00+00,13:00+01,24:00-12}'),
	('timestamp', '{-infinity,1999-12-31 23:59:59.999999,2000-01-01,infinity}'),
	('timestamptz', '{-infinity,2000-01-01 00:00+00,2000-01-01 01:00+01,
					  2000-01-01 00:00:01+00,infinity}'),
	('interval', '{-1 day,0,24 hours,1 day,1 month,30 days,1 year}'),
	-- network addresses and identifiers
	('inet', '{0.0.0.0,10.0.0.1/8,10.0.0.1,10.0.0.0/8,::1,fe80::/10}'),
	('cidr', '{0.0.0.0/0,10.0.0.0/8,10.0.0.0/16,::/0,fe80::/10}'),
	('macaddr', '{00:00:00:00:00:00,08:00:2b:01:02:03,ff:ff:ff:ff:ff:ff}'),
	('macaddr8', '{00:00:00:00:00:00:00:00,08:00:2b:01:02:03:04:05,
				   ff:ff:ff:ff:ff:ff:ff:ff}'),
	('uuid', '{00000000-0000-0000-0000-000000000000,
			   a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,
			   ffffffff-ffff-ffff-ffff-ffffffffffff}'),
	-- the server's own
	('oid', '{0,1,2147483648,4294967295}'),
	('oidvector', ARRAY['', '1', '1 2', '2', '4294967295']),
	('int2vector', ARRAY['', '1', '1 2', '2', '-1']),
	('tid', ARRAY['(0,1)', '(0,2)', '(1,1)', '(4294967295,65535)']),
	('xid8', '{0,3,4294967296,18446744073709551615}'),
	('pg_lsn', '{0/0,0/1,1/0,FFFFFFFF/FFFFFFFF}'),
	('regclass', '{pg_class,pg_proc,pg_type}'),
	('regcollation', ARRAY['0', '"C"', '"POSIX"']),
	('regconfig', '{0,simple,english}'),
	('regdictionary', '{0,simple,english_stem}'),
	('regnamespace', '{0,pg_catalog,information_schema}'),
	('regoper', '{0,96,97}'),
	('regoperator', ARRAY['0', '=(integer,integer)', '<(text,text)']),
	('regproc', '{0,version,pg_sleep}'),
	('regprocedure', ARRAY['0', 'abs(integer)', 'lower(text)']),
	('regrole', '{0,pg_monitor,pg_read_all_data}'),
	('regtype', '{0,integer,text}'),
	-- documents
	('jsonb', ARRAY['null', 'true', '1', '1.0', '"a"', '[]', '{}', '[1, 2]',
					'{"a": 1}', '{"a": 1, "b": null}']),
	('tsvector', ARRAY['', 'a', 'a:1', 'a b', 'b:2A']),
	('tsquery', ARRAY['', 'a', 'a & b', 'a | b', '!a']),
	-- ranges and sets of ranges
	('int4range', ARRAY['empty', '(,)', '(,1)', '[1,2)', '[1,3)', '[1,)']),
	('int8range', ARRAY['empty', '(,)', '[-1,1)', '[1,9223372036854775807)']),
	('numrange', ARRAY['empty', '(,0]', '[1.0,2]', '(1,2]', '[1,2)']),
	('daterange', ARRAY['empty', '[2000-01-01,2000-01-31]', '[,2000-01-01)']),
	('tsrange', ARRAY['empty', '[2000-01-01,2000-01-02)', '[,infinity]']),
	('tstzrange', ARRAY['empty', '[2000-01-01 00:00+00,)', '(,)']),
	('textrange', ARRAY['empty', '[a,b]', '[a,b)', '(a,)']),
	('int4multirange', ARRAY['{}', '{[1,2)}', '{[1,2),[3,4)}', '{(,)}']),
	('int8multirange', ARRAY['{}', '{[1,2)}', '{[-1,0),[3,4)}']),
	('nummultirange', ARRAY['{}', '{[1.0,2]}', '{(1,2],(3,)}']),
	('datemultirange', ARRAY['{}', '{[2000-01-01,2000-01-31]}', '{(,)}']),
	('tsmultirange', ARRAY['{}', '{[2000-01-01,2000-01-02)}', '{(,)}']),
	('tstzmultirange', ARRAY['{}', '{[2000-01-01 00:00+00,)}', '{(,)}']),
	('textmultirange', ARRAY['{}', '{[a,b]}', '{[a,b),[c,d)}']),
	-- types from above
	('mood', '{zealous,calm,angry}'),
	('pair', ARRAY['(,)', '(1,)', '(1,a)', '(1,b)', '(2,"")', '(10,a)']),
	('even', '{-2,0,2,10}'),
	-- no input function accepts a value of these, so their indexes hold nulls
	('pg_node_tree', '{}'),
	('pg_ndistinct', '{}'),
	('pg_dependencies', '{}'),
	('pg_mcv_list', '{}');

-- Operator classes and pairs of types that were tried; see the end.
CREATE TABLE tried_classes (opclass oid);
CREATE TABLE tried_pairs (family oid, lefttype oid, righttype oid);

--
-- Compare the access methods for a type, and operands of the same or another.
-- "opclass" names an operator class of both, or is empty for the default.
--
-- Half of the values are in the table when the index is built, the others are
-- inserted later; some are there twice, and some rows are null.
--
-- For each of the five operators and each sample value as its right operand,
-- the row numbers are collected in the order in which the index gives them:
-- so "at least the smallest value" is the whole index in its order.  Values
-- are read back from the index as well, without the table.
--
-- Returns the class that was used, the number of comparisons, the number of
-- rows that they found, and the number of those that differ or do not use the
-- index.
--
CREATE FUNCTION compare(type text, vals text[], opclass text DEFAULT '',
						operand_type text DEFAULT NULL,
						operand_vals text[] DEFAULT NULL,
						OUT class name, OUT checks int, OUT matches int,
						OUT failures int)
LANGUAGE plpgsql AS $$
DECLARE
	am text;
	line text;
	query text;
	plan text;
	results text[];
	classes name[];
	opclass_id oid;
	family oid;
	lefttype oid;
	righttype oid;
	ops text[];
	op text;
	queries text[] := '{}';
	collate_l text := '';
	collate_r text := '';
	cast_l text;
	cast_r text;
BEGIN
	IF operand_type IS NULL THEN
		operand_type := type;
		operand_vals := vals;
	ELSE
		-- name is always in "C", which must be the index's collation too
		SELECT 'COLLATE "C"' INTO collate_l
			FROM pg_type WHERE oid = type::regtype AND typcollation <> 0;
		SELECT 'COLLATE "C"' INTO collate_r
			FROM pg_type WHERE oid = operand_type::regtype AND typcollation <> 0;
	END IF;

	EXECUTE format('CREATE TABLE operand (n serial, v %s %s)', operand_type,
				   collate_r);
	EXECUTE format('INSERT INTO operand (v) SELECT x::%s '
				   'FROM unnest($1) WITH ORDINALITY AS u(x, n) ORDER BY n',
				   operand_type) USING operand_vals;

	FOREACH am IN ARRAY '{btree,bunbtree}'::text[] LOOP
		EXECUTE format('CREATE TABLE t_%s (id serial, v %s %s)', am, type,
					   collate_l);
		FOR i IN REVERSE 1..0 LOOP
			EXECUTE format('INSERT INTO t_%s (v) SELECT x::%s '
						   'FROM unnest($1) WITH ORDINALITY AS u(x, n) '
						   'WHERE n %% 2 = $2 OR n %% 3 = 0 ORDER BY n DESC',
						   am, type) USING vals, i;
			EXECUTE format('INSERT INTO t_%s (v) VALUES (NULL)', am);
			IF i = 1 THEN
				EXECUTE format('CREATE INDEX i_%1$s ON t_%1$s USING %1$s '
							   '(v %2$s)', am, opclass);
			END IF;
		END LOOP;
		SELECT c.oid, c.opcname, c.opcfamily, c.opcintype
			INTO opclass_id, class, family, lefttype
			FROM pg_index i JOIN pg_opclass c ON c.oid = i.indclass[0]
			WHERE i.indexrelid = ('i_' || am)::regclass;
		classes := classes || class;
	END LOOP;

	-- From here on, class and family are bunbtree's.  Operands are cast to the
	-- input type, as with some types the choice of operator is not clear.
	SELECT format('::%s.%I', typnamespace::regnamespace, typname) INTO cast_l
		FROM pg_type WHERE oid = lefttype AND typtype <> 'p';
	cast_l := coalesce(cast_l, '');
	IF type = operand_type THEN
		righttype := lefttype;
		cast_r := cast_l;
		INSERT INTO tried_classes VALUES (opclass_id);
	ELSE
		righttype := operand_type::regtype;
		cast_r := '';
	END IF;
	INSERT INTO tried_pairs VALUES (family, lefttype, righttype);
	ops := ARRAY(SELECT format('OPERATOR(%s.%s)', n.nspname, o.oprname)
				 FROM pg_amop a
					JOIN pg_operator o ON o.oid = a.amopopr
					JOIN pg_namespace n ON n.oid = o.oprnamespace
				 WHERE a.amopfamily = family
					AND a.amoplefttype = lefttype
					AND a.amoprighttype = righttype
				 ORDER BY a.amopstrategy);

	-- %1$s will be the access method
	IF vals <> '{}' THEN
		FOREACH op IN ARRAY ops LOOP
			queries := queries || format(
				'SELECT (SELECT string_agg(id::text, '','') FROM t_%%1$s t '
				'WHERE t.v%s %s o.v%s) FROM operand o ORDER BY n',
				cast_l, op, cast_r);
		END LOOP;
		queries := queries || format(
			'SELECT (SELECT string_agg(v::text, '','') FROM t_%%1$s t '
			'WHERE t.v%s %s o.v%s) FROM operand o ORDER BY n',
			cast_l, ops[4], cast_r);
	END IF;
	-- for a composite type this asks about its fields, not for the index
	IF NOT EXISTS (SELECT FROM pg_type
				   WHERE oid = type::regtype AND typtype = 'c') THEN
		queries := queries || ARRAY['SELECT string_agg(id::text, '','') '
									'FROM t_%1$s WHERE v IS NULL'];
	END IF;
	IF type = operand_type THEN
		FOREACH op IN ARRAY ARRAY[ops[1], ops[5]] LOOP
			queries := queries || format(
				'SELECT string_agg(id::text, '','') FROM '
				'(SELECT id FROM t_%%1$s ORDER BY v%s USING %s, id) s',
				cast_l, op);
		END LOOP;
	END IF;

	checks := 0;
	matches := 0;
	failures := CASE WHEN classes[1] = classes[2] AND cardinality(ops) = 5
				THEN 0 ELSE 1 END;
	FOREACH query IN ARRAY queries LOOP
		results := '{}';
		FOREACH am IN ARRAY '{btree,bunbtree}'::text[] LOOP
			plan := '';
			FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || format(query, am) LOOP
				plan := plan || line || E'\n';
			END LOOP;
			-- how an ORDER BY is done is another test's business
			IF query NOT LIKE '%USING%' AND
				plan !~ ('Index (Only )?Scan using i_' || am) THEN
				failures := failures + 1;
				RAISE WARNING '% does not use its index: %', query, plan;
			END IF;
			EXECUTE format('SELECT string_agg(s.string_agg, '';'') FROM (%s) s',
						   format(query, am)) INTO line;
			results := results || coalesce(line, '');
		END LOOP;
		checks := checks + 1;
		-- row numbers only: values can contain anything
		IF query NOT LIKE '%v::text%' AND results[1] <> '' THEN
			matches := matches +
				cardinality(regexp_split_to_array(results[1], '[,;]'));
		END IF;
		IF results[1] IS DISTINCT FROM results[2] THEN
			failures := failures + 1;
			RAISE WARNING '% differs: % and %', query, results[1], results[2];
		END IF;
	END LOOP;

	DROP TABLE t_btree, t_bunbtree, operand;
END $$;

-- The default class of each type.
SELECT type, c.* FROM samples, compare(type, vals) c ORDER BY type COLLATE "C";

-- Other classes of text, its relatives, addresses and composite types.
SELECT type, c.*
	FROM samples,
		unnest(CASE
			   WHEN type IN ('text', 'varchar')
			   THEN '{text_pattern_ops,varchar_ops,varchar_pattern_ops}'::text[]
			   WHEN type = 'bpchar' THEN '{bpchar_pattern_ops}'
			   WHEN type IN ('inet', 'cidr') THEN '{inet_ops,cidr_ops}'
			   WHEN type = 'pair' THEN '{record_image_ops}'
			   END) AS other,
		compare(type, vals, other) c
	ORDER BY type COLLATE "C", class;

-- Arrays of each of the types; elements are neighbours in the list above.
SELECT class, count(*), sum(checks) AS checks, sum(matches) AS matches,
		sum(failures) AS failures
	FROM samples,
		LATERAL (SELECT array_agg(ARRAY[v, vals[n + 1]]::text) || '{"{}"}'
				 FROM unnest(vals) WITH ORDINALITY AS u(v, n)) AS p(pairs),
		compare(type || '[]', pairs) c
	WHERE vals <> '{}'
	GROUP BY class;

-- Operators whose operands differ in type, as far as a class exists for the
-- left one.
SELECT l.type, r.type AS operand, c.*
	FROM pg_am a
		JOIN pg_opfamily f ON f.opfmethod = a.oid
		JOIN pg_amop o ON o.amopfamily = f.oid AND o.amopstrategy = 1
			AND o.amoplefttype <> o.amoprighttype
		JOIN samples l ON l.type::regtype = o.amoplefttype
		JOIN samples r ON r.type::regtype = o.amoprighttype,
		compare(l.type, l.vals,
				(SELECT opcname FROM pg_opclass
				 WHERE opcfamily = f.oid AND opcintype = o.amoplefttype
				 ORDER BY opcdefault DESC, oid LIMIT 1),
				r.type, r.vals) c
	WHERE amname = 'bunbtree'
	ORDER BY l.type COLLATE "C", r.type COLLATE "C";

--
-- Nothing was left out.  (Whoever adds a type to the server, or an operator
-- class, will find it here and can add it above.)
--

-- Operator classes of btree without a test of ours of that name.
SELECT opcname AS untested_class
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE amname = 'btree' AND c.oid < 16384 AND opcname NOT IN (
		SELECT t.opcname FROM pg_opclass t, tried_classes
		WHERE t.oid = opclass);

-- Pairs of types that btree has operators for.
SELECT opfname AS untested_family, amoplefttype::regtype, amoprighttype::regtype
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
		JOIN pg_am a ON a.oid = f.opfmethod
	WHERE amname = 'btree' AND o.oid < 16384 AND amopstrategy = 1
		AND (opfname, amoplefttype, amoprighttype) NOT IN (
			SELECT opfname, lefttype, righttype
			FROM tried_pairs JOIN pg_opfamily ON oid = family);

-- Types that btree has a class for, be it that of another type: of all that
-- are not tried above, only those remain for which CREATE INDEX succeeds.
CREATE FUNCTION btree_can_index(type oid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE probe (v %s)', type::regtype);
	CREATE INDEX ON probe USING btree (v);
	DROP TABLE probe;
	RETURN true;
EXCEPTION WHEN undefined_object THEN
	RETURN false;
END $$;
WITH untried AS MATERIALIZED (
	SELECT oid FROM pg_type t
	WHERE typnamespace = 'pg_catalog'::regnamespace
		AND typtype IN ('b', 'd', 'e', 'm', 'r')
		AND NOT EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid)
		AND oid NOT IN (SELECT type::regtype FROM samples)
)
SELECT oid::regtype AS untested_type FROM untried WHERE btree_can_index(oid);

DROP SCHEMA types_test CASCADE;
