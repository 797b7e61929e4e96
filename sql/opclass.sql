--
-- Operator classes: bunbtree has what btree has.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS bunbtree;
-- in case an earlier run was interrupted
DROP ROLE IF EXISTS regress_bunbtree_user;
RESET client_min_messages;

-- What the two access methods have, in terms that can be compared.  Types,
-- operators and functions are the same objects, so their OIDs can stand.
CREATE TEMP VIEW families AS
	SELECT amname, f.opfnamespace, f.opfname
	FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod;
CREATE TEMP VIEW classes AS
	SELECT amname, c.opcnamespace, c.opcname, c.opcintype, c.opckeytype,
		c.opcdefault, f.opfnamespace, f.opfname
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
		JOIN pg_opfamily f ON f.oid = c.opcfamily;
CREATE TEMP VIEW operators AS
	SELECT amname, f.opfnamespace, f.opfname, o.amoplefttype, o.amoprighttype,
		o.amopstrategy, o.amoppurpose, o.amopopr, o.amopsortfamily
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
		JOIN pg_am a ON a.oid = o.amopmethod;
CREATE TEMP VIEW functions AS
	SELECT amname, f.opfnamespace, f.opfname, p.amproclefttype,
		p.amprocrighttype, p.amprocnum, p.amproc
	FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
		JOIN pg_am a ON a.oid = f.opfmethod;

-- Rows of a view that only one of the two has.
CREATE FUNCTION pg_temp.differences(view text, OUT only_in text, OUT n bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	-- all columns but the access method, as one row
	cols text := (SELECT string_agg(quote_ident(attname), ', ')
				  FROM pg_attribute
				  WHERE attrelid = view::regclass AND attname <> 'amname');
	rows_of text := format('SELECT %s FROM %I WHERE amname = ', cols, view);
BEGIN
	FOREACH only_in IN ARRAY '{btree,bunbtree}'::text[] LOOP
		EXECUTE format('SELECT count(*) FROM (%s%L EXCEPT ALL %s%L) d',
					   rows_of, only_in, rows_of,
					   CASE only_in WHEN 'btree' THEN 'bunbtree' ELSE 'btree' END)
			INTO n;
		RETURN NEXT;
	END LOOP;
END $$;

-- Nothing is missing and nothing is extra.
SELECT v AS what, d.*
	FROM unnest('{families,classes,operators,functions}'::text[]) v,
		pg_temp.differences(v) d;

-- The comparison has something to compare.
SELECT count(*) > 40 AS classes FROM classes WHERE amname = 'bunbtree';
SELECT count(*) > 250 AS operators FROM operators WHERE amname = 'bunbtree';
SELECT count(*) > 100 AS functions FROM functions WHERE amname = 'bunbtree';

-- name_ops keeps its storage type; sister classes share a family's members.
SELECT opcname, opcintype::regtype, opckeytype::regtype, opfname
	FROM classes
	WHERE amname = 'bunbtree' AND (opckeytype <> 0 OR opcname LIKE 'varchar%'
		OR opcname IN ('cidr_ops', 'inet_ops'))
	ORDER BY opcname;

-- Every class passes the validation of nbtree, which is the access method's.
SELECT opcname
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE amname = 'bunbtree' AND NOT amvalidate(c.oid);

--
-- All of this came with the extension: every class and family is a member, and
-- a second call finds nothing to do.
--
CREATE TEMP VIEW members AS
	SELECT d.classid, d.objid
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND e.extname = 'bunbtree';
SELECT opcname AS not_a_member
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE amname = 'bunbtree'
		AND ('pg_opclass'::regclass, c.oid) NOT IN (TABLE members);
SELECT opfname AS not_a_member
	FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod
	WHERE amname = 'bunbtree'
		AND ('pg_opfamily'::regclass, f.oid) NOT IN (TABLE members);
SELECT bunbtree_mirror_opclasses();

-- Operators and comparison functions belong to the class of their type, as
-- nbtree has it, so that dropping the class takes them along.
SELECT count(*) AS untied
	FROM pg_amop o
		JOIN pg_am a ON a.oid = o.amopmethod
	WHERE amname = 'bunbtree' AND o.amoplefttype = o.amoprighttype
		AND NOT EXISTS (
			SELECT FROM pg_depend d JOIN pg_opclass c ON c.oid = d.refobjid
			WHERE d.classid = 'pg_amop'::regclass AND d.objid = o.oid
				AND d.refclassid = 'pg_opclass'::regclass AND d.deptype = 'i'
				AND c.opcfamily = o.amopfamily
				AND c.opcintype = o.amoplefttype);

--
-- Who may call it.
--
CREATE ROLE regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT bunbtree_mirror_opclasses();
RESET ROLE;
GRANT EXECUTE ON FUNCTION bunbtree_mirror_opclasses TO regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT bunbtree_mirror_opclasses();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION bunbtree_mirror_opclasses FROM regress_bunbtree_user;
BEGIN READ ONLY;
SELECT bunbtree_mirror_opclasses();
ROLLBACK;

-- It serves the access method that is in the same extension, and no other.
BEGIN;
ALTER EXTENSION bunbtree DROP ACCESS METHOD bunbtree;
SAVEPOINT s;
SELECT bunbtree_mirror_opclasses();
ROLLBACK TO s;
ALTER EXTENSION bunbtree DROP FUNCTION bunbtree_mirror_opclasses;
SELECT bunbtree_mirror_opclasses();
ROLLBACK;

--
-- Classes of one's own: lengths in two units, which compare with each other.
-- Names that need quotes, in a schema that is not in anyone's search_path.
--
CREATE SCHEMA "Own";
CREATE TYPE "Own".metre AS (v numeric);
CREATE TYPE "Own"."Inch" AS (v numeric);
CREATE FUNCTION "Own".mm("Own".metre) RETURNS numeric
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT ($1).v * 1000';
CREATE FUNCTION "Own".mm("Own"."Inch") RETURNS numeric
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT ($1).v * 25.4';

-- Comparison function and operators for a pair of types.
CREATE FUNCTION pg_temp.make_comparable(l regtype, r regtype) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	name text;
	op text;
BEGIN
	EXECUTE format('CREATE FUNCTION "Own".cmp(%s, %s) RETURNS integer '
				   'LANGUAGE sql IMMUTABLE STRICT AS '
				   '''SELECT numeric_cmp("Own".mm($1), "Own".mm($2))''', l, r);
	FOR name, op IN VALUES ('lt', '<'), ('le', '<='), ('eq', '='),
					('ge', '>='), ('gt', '>') LOOP
		EXECUTE format('CREATE FUNCTION "Own".%s(%s, %s) RETURNS boolean '
					   'LANGUAGE sql IMMUTABLE STRICT AS '
					   '''SELECT "Own".mm($1) %s "Own".mm($2)''',
					   name, l, r, op);
		EXECUTE format('CREATE OPERATOR "Own".%s (FUNCTION = "Own".%s, '
					   'LEFTARG = %s, RIGHTARG = %s)', op, name, l, r);
	END LOOP;
END $$;
SELECT pg_temp.make_comparable('"Own".metre', '"Own".metre');
CREATE OPERATOR FAMILY "Own"."Length" USING btree;
CREATE OPERATOR CLASS "Own".metre_ops DEFAULT FOR TYPE "Own".metre
	USING btree FAMILY "Own"."Length" AS
	OPERATOR 1 "Own".<, OPERATOR 2 "Own".<=, OPERATOR 3 "Own".=,
	OPERATOR 4 "Own".>=, OPERATOR 5 "Own".>,
	FUNCTION 1 "Own".cmp("Own".metre, "Own".metre);

-- Before: a composite type sorts as a record.
CREATE TABLE lengths (m "Own".metre);
CREATE INDEX ON lengths USING bunbtree (m);
SELECT opcname FROM pg_index, pg_opclass c
	WHERE indrelid = 'lengths'::regclass AND c.oid = indclass[0];
-- After: by its own class, which is neither a member of the extension nor
-- anyone else's.
SELECT bunbtree_mirror_opclasses();
SELECT bunbtree_mirror_opclasses();
CREATE INDEX ON lengths USING bunbtree (m);
SELECT opcname, pg_get_userbyid(opcowner) = current_user AS own_class
	FROM pg_index, pg_opclass c
	WHERE indrelid = 'lengths'::regclass AND c.oid = indclass[0]
	ORDER BY opcname DESC;
SELECT pg_describe_object(classid, objid, 0) FROM members
	WHERE pg_describe_object(classid, objid, 0) ~ 'Own';
SELECT v AS what, d.*
	FROM unnest('{families,classes,operators,functions}'::text[]) v,
		pg_temp.differences(v) d
	WHERE n > 0;

--
-- What is added to a family of btree later gets picked up: a second class, the
-- cross-type operators, an optional support function.
--
SELECT pg_temp.make_comparable('"Own"."Inch"', '"Own"."Inch"');
SELECT pg_temp.make_comparable('"Own".metre', '"Own"."Inch"');
SELECT pg_temp.make_comparable('"Own"."Inch"', '"Own".metre');
CREATE OPERATOR CLASS "Own"."Inch_ops" DEFAULT FOR TYPE "Own"."Inch"
	USING btree FAMILY "Own"."Length" AS
	OPERATOR 1 "Own".<, OPERATOR 2 "Own".<=, OPERATOR 3 "Own".=,
	OPERATOR 4 "Own".>=, OPERATOR 5 "Own".>,
	FUNCTION 1 "Own".cmp("Own"."Inch", "Own"."Inch");
-- One operator and one function less than a family should have.
ALTER OPERATOR FAMILY "Own"."Length" USING btree ADD
	OPERATOR 1 "Own".< ("Own".metre, "Own"."Inch"),
	OPERATOR 2 "Own".<= ("Own".metre, "Own"."Inch"),
	OPERATOR 3 "Own".= ("Own".metre, "Own"."Inch"),
	OPERATOR 4 "Own".>= ("Own".metre, "Own"."Inch"),
	FUNCTION 1 ("Own".metre, "Own"."Inch") "Own".cmp("Own".metre, "Own"."Inch"),
	OPERATOR 1 "Own".< ("Own"."Inch", "Own".metre),
	OPERATOR 2 "Own".<= ("Own"."Inch", "Own".metre),
	OPERATOR 3 "Own".= ("Own"."Inch", "Own".metre),
	OPERATOR 4 "Own".>= ("Own"."Inch", "Own".metre),
	OPERATOR 5 "Own".> ("Own"."Inch", "Own".metre);
SELECT v AS what, d.*
	FROM unnest('{families,classes,operators,functions}'::text[]) v,
		pg_temp.differences(v) d
	WHERE n > 0;
SELECT bunbtree_mirror_opclasses();
SELECT v AS what, d.*
	FROM unnest('{families,classes,operators,functions}'::text[]) v,
		pg_temp.differences(v) d
	WHERE n > 0;

-- Validation sees what this family lacks.  (nbtree knows only its own name.)
SELECT opcname, amvalidate(c.oid)
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE amname = 'bunbtree' AND opcname = 'Inch_ops';

-- The rest of the family: no class is new, yet it becomes valid.
ALTER OPERATOR FAMILY "Own"."Length" USING btree ADD
	OPERATOR 5 "Own".> ("Own".metre, "Own"."Inch"),
	FUNCTION 1 ("Own"."Inch", "Own".metre) "Own".cmp("Own"."Inch", "Own".metre),
	FUNCTION 4 ("Own".metre, "Own".metre) btequalimage(oid);
SELECT bunbtree_mirror_opclasses();
SELECT v AS what, d.*
	FROM unnest('{families,classes,operators,functions}'::text[]) v,
		pg_temp.differences(v) d
	WHERE n > 0;
SELECT opcname, amvalidate(c.oid)
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE amname = 'bunbtree' AND opcname IN ('metre_ops', 'Inch_ops')
	ORDER BY opcname;

-- Where someone was faster than the call, that work stands: a class of the same
-- name is left as it is, and a type has only one default class.
BEGIN;
DROP TABLE lengths;
DROP OPERATOR FAMILY "Own"."Length" USING bunbtree;
CREATE OPERATOR FAMILY "Own".mine USING bunbtree;
CREATE OPERATOR CLASS "Own".metre_ops FOR TYPE "Own".metre
	USING bunbtree FAMILY "Own".mine AS STORAGE "Own".metre;
CREATE OPERATOR CLASS "Own".mine DEFAULT FOR TYPE "Own"."Inch"
	USING bunbtree FAMILY "Own".mine AS STORAGE "Own"."Inch";
SELECT bunbtree_mirror_opclasses();
SELECT opcname, opcdefault, opfname
	FROM pg_opclass c JOIN pg_opfamily f ON f.oid = opcfamily
		JOIN pg_am a ON a.oid = opcmethod
	WHERE amname = 'bunbtree' AND opcintype::regtype::text ~ 'Own'
	ORDER BY opcname;
ROLLBACK;

-- The owner of the original owns the copy.
BEGIN;
ALTER OPERATOR CLASS "Own"."Inch_ops" USING btree
	OWNER TO regress_bunbtree_user;
ALTER OPERATOR FAMILY "Own"."Length" USING btree
	OWNER TO regress_bunbtree_user;
DROP TABLE lengths;
DROP OPERATOR FAMILY "Own"."Length" USING bunbtree;
SELECT bunbtree_mirror_opclasses();
SELECT opcname, pg_get_userbyid(opcowner) = current_user AS own_class,
		pg_get_userbyid(opfowner) = current_user AS own_family
	FROM pg_opclass c JOIN pg_opfamily f ON f.oid = opcfamily
		JOIN pg_am a ON a.oid = opcmethod
	WHERE amname = 'bunbtree' AND opfname = 'Length'
	ORDER BY opcname;
ROLLBACK;

--
-- Built-in classes that are not there (as after an upgrade of the server) are
-- made, and become members of the extension.  And while they are not there,
-- the argument: types stand for their families, which are mirrored whole.
--
BEGIN;
DO $$
DECLARE
	o record;
BEGIN
	DROP TABLE lengths;
	FOR o IN SELECT type, identity
			FROM members, pg_identify_object(classid, objid, 0)
			WHERE type IN ('operator family', 'operator class') LOOP
		EXECUTE format('ALTER EXTENSION bunbtree DROP %s %s',
					   o.type, o.identity);
	END LOOP;
	FOR o IN SELECT i.identity
			FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod,
				pg_identify_object('pg_opfamily'::regclass, f.oid, 0) i
			WHERE amname = 'bunbtree' LOOP
		EXECUTE format('DROP OPERATOR FAMILY %s', o.identity);
	END LOOP;
END $$;
SELECT count(*) FROM classes WHERE amname = 'bunbtree';

-- No type, no class.
SELECT bunbtree_mirror_opclasses('{}');
-- A null is an oversight, and so is a type that cannot be sorted.
SAVEPOINT s;
SELECT bunbtree_mirror_opclasses('{int4,NULL}');
ROLLBACK TO s;
SELECT bunbtree_mirror_opclasses('{int4,point}');
ROLLBACK TO s;
SELECT bunbtree_mirror_opclasses(ARRAY[1::oid::regtype]);
ROLLBACK TO s;

-- One of three integer types is enough to get all three; again, and there is
-- nothing left to do.
SELECT bunbtree_mirror_opclasses('{int2}');
SELECT opfname, opcname FROM classes WHERE amname = 'bunbtree' ORDER BY 1, 2;
SELECT bunbtree_mirror_opclasses('{int4,int8,int4}');
SELECT count(*) AS missing
	FROM operators b
	WHERE amname = 'btree' AND opfname = 'integer_ops' AND NOT EXISTS (
		SELECT FROM operators u
		WHERE u.amname = 'bunbtree' AND u.opfname = 'integer_ops'
			AND u.amopopr = b.amopopr);

-- What a type uses: that of its base type, that of the type it is coerced to,
-- or a polymorphic one; with all families that have classes for it.
CREATE DOMAIN domain_over_bool AS boolean;
CREATE TYPE some_enum AS ENUM ('a');
CREATE TYPE some_record AS (a integer);
CREATE OPERATOR CLASS another_for_some_record FOR TYPE some_record
	USING btree AS STORAGE some_record;
CREATE FUNCTION pg_temp.mirrored(type regtype)
RETURNS TABLE (opfname name, opcname name) LANGUAGE plpgsql AS $$
DECLARE
	before oid[] := ARRAY(SELECT oid FROM pg_opclass);
BEGIN
	PERFORM bunbtree_mirror_opclasses(ARRAY[type]);
	RETURN QUERY SELECT f.opfname, c.opcname
		FROM pg_opclass c JOIN pg_opfamily f ON f.oid = c.opcfamily
		WHERE c.oid <> ALL (before) ORDER BY 1, 2;
END $$;
SELECT t, m.*
	FROM unnest('{domain_over_bool,varchar,cidr,some_enum,some_record,
				  point[],int4range,datemultirange,
				  "\"Own\".metre"}'::regtype[]) WITH ORDINALITY AS u(t, n),
		pg_temp.mirrored(t) m
	ORDER BY n, opfname, opcname;

-- Everything else; and all built-in ones are members again.
SELECT bunbtree_mirror_opclasses() > 0 AS rest;
SELECT v AS what, d.*
	FROM unnest('{families,classes,operators,functions}'::text[]) v,
		pg_temp.differences(v) d
	WHERE n > 0;
SELECT opcname, opcintype::regtype AS not_a_member
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE amname = 'bunbtree'
		AND ('pg_opclass'::regclass, c.oid) NOT IN (TABLE members)
	ORDER BY opcname;
SELECT opfname AS not_a_member
	FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod
	WHERE amname = 'bunbtree'
		AND ('pg_opfamily'::regclass, f.oid) NOT IN (TABLE members)
	ORDER BY opfname;
ROLLBACK;

--
-- Objects in the caller's search_path do not get in the way.
--
BEGIN;
DROP TABLE lengths;
DROP OPERATOR FAMILY "Own"."Length" USING bunbtree;
CREATE SCHEMA trap;
CREATE FUNCTION trap.never(oid, oid) RETURNS boolean LANGUAGE plpgsql
	AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE OPERATOR trap.= (FUNCTION = trap.never, LEFTARG = oid, RIGHTARG = oid);
CREATE TABLE trap.pg_opclass (oid oid);
CREATE TEMP TABLE pg_opfamily (oid oid);
SET LOCAL search_path = trap, pg_temp, pg_catalog, public;
SELECT public.bunbtree_mirror_opclasses();
SELECT current_setting('search_path');
ROLLBACK;

--
-- Validation is real: broken classes are reported.
--
BEGIN;
CREATE OPERATOR CLASS "Own".without_equality FOR TYPE integer
	USING bunbtree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 btint4cmp(integer, integer);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'without_equality';
CREATE OPERATOR CLASS "Own".wrong_function FOR TYPE bigint
	USING bunbtree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 (bigint, bigint) btint4cmp(integer, integer);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'wrong_function';
CREATE OPERATOR CLASS "Own".nothing FOR TYPE boolean
	USING bunbtree AS STORAGE boolean;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'nothing';
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA "Own" CASCADE;
DROP TABLE lengths;
DROP ROLE regress_bunbtree_user;
