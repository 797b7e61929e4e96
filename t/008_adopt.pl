
# Adopted indexes: after a crash, in dumps, on a standby, and what this server
# version could not live with.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "autovacuum = off\nwal_keep_size = 2GB\n");
$node->start;

my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);

# Access methods of the indexes of schema "public", and amcheck's verdict.
my $indexes = q{
	SELECT c.relname, amname, c.reloptions,
		CASE WHEN c.relkind = 'I' THEN ''
			WHEN amname = 'bunbtree' THEN bunbtree_check(c.oid, true, true)::text
			ELSE bt_index_parent_check(c.oid, true, true)::text END
	FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_am a ON a.oid = c.relam
	WHERE c.relnamespace = 'public'::regnamespace
		AND amname IN ('btree', 'bunbtree')
	ORDER BY 1};

#
# A crash right after the commit, and one before.
#
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (a int, b int);
	INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
	CREATE INDEX t_a ON t (a);
	CREATE INDEX t_b ON t (b);
	CHECKPOINT});
my $session = $node->background_psql('postgres', on_error_die => 1);
$session->query_safe(q{BEGIN; SELECT bunbtree_adopt('t_b'); INSERT INTO t VALUES (0, 0)});
$session->query_safe(q{ROLLBACK; SELECT bunbtree_adopt('t_a')});
$session->query_safe(q{BEGIN; SELECT bunbtree_adopt('t_b'); INSERT INTO t VALUES (0, 0)});
$node->stop('immediate');
eval { $session->quit };
$node->start;
is($node->safe_psql('postgres', $indexes . ' LIMIT 10'),
	"bunbtree_adopted_pkey|btree||\nt_a|bunbtree||\nt_b|btree||",
	'a committed conversion survives a crash, an open one is gone');
is($node->safe_psql('postgres', q{
		INSERT INTO t SELECT i, i FROM generate_series(1001, 2000) i;
		SELECT bunbtree_check('t_a', true, true);
		SELECT bunbtree_release('t_a')}),
	"\n", 'the index can be used and released');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop('immediate');
$node->start;
like($node->safe_psql('postgres', $indexes), qr/^t_a\|btree\|\|$/m,
	'so does the way back');

#
# Dump and restore of all that can be adopted.
#
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE EXTENSION citext;
	SELECT bunbtree_mirror_opclasses();
	CREATE TYPE mood AS ENUM ('sad', 'glad');
	CREATE TYPE pair AS (x int, y int);
	CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text, c citext, d date,
		e mood, f int[], g int4range, h pair, i varchar(9), j name, k numeric,
		l inet, u1 int UNIQUE, u2 int UNIQUE DEFERRABLE, v int NOT NULL,
		CONSTRAINT "odd ""name" UNIQUE (a, id) INCLUDE (b) WITH (fillfactor = 75),
		CONSTRAINT ex EXCLUDE USING btree (v WITH =) WHERE (v > 0));
	INSERT INTO t
		SELECT i, i % 10, 'b' || i, 'C' || i, date '2000-01-01' + i, 'glad',
			ARRAY[i], int4range(i, i + 5), (i, i)::pair, i, i::text, i / 3.0, '10.0.0.1', i, i, i
		FROM generate_series(1, 500) i;
	CREATE INDEX t_plain ON t (a) WITH (fillfactor = 70, deduplicate_items = off);
	CREATE INDEX t_types ON t (b, c, d, e, f, g, h, i, j, k, l);
	CREATE INDEX t_classes ON t (b text_pattern_ops, i varchar_pattern_ops, c text_ops);
	CREATE INDEX t_sort ON t (b COLLATE "C" DESC, a NULLS FIRST);
	CREATE INDEX t_expr ON t (lower(b), (a + v)) INCLUDE (k) WHERE a > 2;
	CREATE UNIQUE INDEX t_unique ON t (v, a);
	CREATE UNIQUE INDEX t_cluster ON t (k, id);
	ALTER TABLE t CLUSTER ON t_cluster;
	ALTER INDEX t_expr ALTER COLUMN 1 SET STATISTICS 77;
	COMMENT ON INDEX t_expr IS 'an expression';
	CREATE TABLE ri (a int NOT NULL, b int);
	CREATE UNIQUE INDEX ri_a ON ri (a);
	ALTER TABLE ri REPLICA IDENTITY USING INDEX ri_a;
	CREATE TABLE f (id int REFERENCES t, u int REFERENCES t (u1));
	CREATE INDEX f_id ON f (id);
	INSERT INTO f VALUES (1, 1);
	CREATE UNLOGGED TABLE u (a int);
	CREATE INDEX u_a ON u (a);
	CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
	CREATE INDEX m_a ON m (a);
	CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (a);
	CREATE TABLE p21 PARTITION OF p2 FOR VALUES FROM (10) TO (20);
	CREATE TABLE p3 (a int, b text);
	CREATE INDEX p_a ON p (a, b);
	CREATE UNIQUE INDEX p_unique ON p (a);
	CREATE INDEX p1_own ON p1 (b);
	ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
	INSERT INTO p SELECT i, i FROM generate_series(0, 29) i;
	CREATE SCHEMA "Other";
	CREATE TABLE "Other"."T" (a int PRIMARY KEY);
	-- and what has to be refused
	CREATE TABLE pk (a int PRIMARY KEY, b int) PARTITION BY RANGE (a);
	CREATE TABLE pk1 PARTITION OF pk FOR VALUES FROM (0) TO (10);
	CREATE TABLE q (a int NOT NULL) PARTITION BY RANGE (a);
	CREATE TABLE q1 (a int PRIMARY KEY);
	CREATE UNIQUE INDEX q_unique ON q (a);
	ALTER TABLE q ATTACH PARTITION q1 FOR VALUES FROM (0) TO (10)});
$node->safe_psql('source', q{
	DO $$
	DECLARE
		i regclass;
	BEGIN
		FOR i IN SELECT indexrelid FROM pg_index WHERE indexrelid >= 16384
				 AND bunbtree_adopt_refusal(indexrelid) IS NULL
		LOOP
			PERFORM bunbtree_adopt(i);
		END LOOP;
	END
	$$});
my $source = $node->safe_psql('source', $indexes);
my $refused = $node->safe_psql('source', q{
	SELECT string_agg(relname, ' ' ORDER BY relname)
	FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE amname = 'btree' AND relnamespace = 'public'::regnamespace});
is($refused,
	join(' ', sort(
			qw(pk_pkey pk1_pkey q_unique q1_pkey),
			$major < 18 ? qw(p_unique p1_a_idx p2_a_idx p21_a_idx p3_a_idx) : (),
			$major >= 16 && $major < 18 ? qw(ri_a t_pkey bunbtree_adopted_pkey) : ())),
	'what could not be adopted');

# Nobody but a superuser has privileges on more than he needs for a dump.
$node->safe_psql('source', q{
	CREATE ROLE dumper LOGIN;
	GRANT pg_read_all_data TO dumper});

my $dir = $node->basedir;
sub dump_database
{
	my ($database, $file, @options) = @_;

	$node->command_ok([ 'pg_dump', '--file', $file, @options, $database ],
		"dump of $database");
	my $dump = slurp_file($file);
	# from 15.14 and 18 on they name a random key
	$dump =~ s/^\\(un)?restrict .*$//mg;
	return $dump;
}

sub restore
{
	my ($database, $file) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $database, '-f', $file ],
		"restored into $database");
	return;
}

my $dump = dump_database('source', "$dir/dump.sql");
dump_database('source', "$dir/dump_user.sql", '--username', 'dumper');
restore('target', "$dir/dump.sql");

# Constraints are back as btree, nothing else is.
my $lost = $node->safe_psql('target', q{
	SELECT relname FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE amname = 'btree' AND relname <> ALL (string_to_array('} . $refused . q{', ' '))
		AND relnamespace IN ('public'::regnamespace, '"Other"'::regnamespace)
	ORDER BY 1});
my $adopted = $node->safe_psql('target',
	'SELECT indexname FROM bunbtree_adopted ORDER BY 1');
is($lost, $adopted, 'what comes back as btree is recorded');
like($lost, qr/^T_pkey\nbunbtree_adopted_pkey\nodd "name\n/, 'and it is what was expected');
is($node->safe_psql('target', $indexes =~ s/, c.reloptions//r) eq $source ? 1 : 0, 0,
	'so the restored database differs');

# Before it is put right, a dump carries the record on.
my $second = dump_database('target', "$dir/dump2.sql");
like($second, qr/^COPY public\.bunbtree_adopted .*^public\tt\todd "name$/ms,
	'the record is in the next dump, too');

is($node->safe_psql('target', q{
		SELECT count(*) FILTER (WHERE adopted) = count(*), count(*) FILTER (WHERE reason IS NULL) = count(*)
		FROM bunbtree_readopt()}),
	't|t', 'all of them are adopted again');
is($node->safe_psql('target', $indexes), $source, 'the indexes are what they were');
is(dump_database('target', "$dir/dump3.sql"), $dump, 'and so is the dump');
is($node->safe_psql('target', q{SELECT DISTINCT adopted FROM bunbtree_readopt()}), 'f',
	'once more does nothing');

# Indexes of tables that belong to an extension come with that extension.
$node->safe_psql('source', q{
	CREATE TABLE member (a int);
	CREATE INDEX member_a ON member (a);
	ALTER EXTENSION citext ADD TABLE member;
	SELECT bunbtree_adopt('member_a');
	CREATE TABLE gone (a int PRIMARY KEY);
	SELECT bunbtree_adopt('gone_pkey');
	DROP TABLE gone});
dump_database('source', "$dir/member.sql");
restore('members', "$dir/member.sql");
$node->safe_psql('members', q{
	CREATE TABLE member (a int);
	CREATE INDEX member_a ON member (a);
	ALTER EXTENSION citext ADD TABLE member});
is($node->safe_psql('members', q{
		SELECT * FROM bunbtree_readopt() WHERE index = 'member_a'::regclass OR index IS NULL ORDER BY 1}),
	qq{member_a|t|\n|f|table public.gone has no index "gone_pkey"},
	'index of an extension, and one that is no more');

# Before the extension goes, everything can be released.
$node->safe_psql('target', q{
	SELECT bunbtree_release(c.oid)
	FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE amname = 'bunbtree' AND relkind IN ('i', 'I') AND NOT relispartition});
my ($rc, $stdout, $stderr) = $node->psql('target', 'DROP EXTENSION bunbtree');
is($rc, 0, 'extension dropped without CASCADE') or diag $stderr;
is($node->safe_psql('target', q{
		SELECT count(bt_index_parent_check(indexrelid, true, true)) > 20
		FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		WHERE relkind = 'i' AND amname = 'btree' AND relnamespace = 'public'::regnamespace}),
	't', 'the indexes are sound');

#
# Foreign keys and constraints, version by version.
#
$node->safe_psql('postgres', q{
	CREATE TABLE r (a int PRIMARY KEY, b int NOT NULL);
	CREATE UNIQUE INDEX r_b ON r (b);
	INSERT INTO r SELECT i, i FROM generate_series(1, 100) i;
	CREATE TABLE r_a (a int CONSTRAINT r_a_fk REFERENCES r ON DELETE CASCADE);
	CREATE TABLE r_b_ref (b int REFERENCES r (b));
	INSERT INTO r_a VALUES (1), (2)});

sub refusal
{
	return $node->safe_psql('postgres',
		"SELECT bunbtree_adopt_refusal('$_[0]')");
}

is(refusal('r_b'),
	$major < 18 ? 'index "r_b" is referenced by a foreign key' : '',
	'unique index that a foreign key refers to');
is(refusal('r_pkey'),
	$major > 15 && $major < 18 ? 'index "r_pkey" is a primary key or replica identity' : '',
	'primary key that a foreign key refers to');
SKIP:
{
	skip 'primary keys cannot be adopted', 6 if $major > 15 && $major < 18;

	$node->safe_psql('postgres', q{SELECT bunbtree_adopt('r_pkey')});
	($rc, $stdout, $stderr) = $node->psql('postgres', 'INSERT INTO r_a VALUES (1000)');
	like($stderr, qr/violates foreign key constraint "r_a_fk"/, 'foreign key holds');
	is($node->safe_psql('postgres', q{
			INSERT INTO r_a VALUES (3);
			DELETE FROM r WHERE a = 1;
			SELECT count(*) FROM r_a}), '2', 'foreign key cascades');
	is($node->safe_psql('postgres', q{
			ALTER TABLE r_a ALTER CONSTRAINT r_a_fk DEFERRABLE;
			ALTER TABLE r_a ADD CHECK (a > 0);
			ALTER TABLE r ALTER b TYPE bigint;
			SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'r_pkey'}),
		'bunbtree', 'ALTER TABLE of other columns leaves it');
	($rc, $stdout, $stderr) = $node->psql('postgres',
		'CREATE TABLE r_new (a int REFERENCES r)');
	like($stderr,
		$major < 18 ? qr/only b-tree indexes are supported for foreign keys/ : qr/^$/,
		'new foreign key');
	($rc, $stdout, $stderr) = $node->psql('postgres',
		'ALTER TABLE r_a ALTER a TYPE bigint');
	like($stderr,
		$major < 18 ? qr/only b-tree indexes are supported for foreign keys/ : qr/^$/,
		'ALTER TYPE of a referencing column');
	is($node->safe_psql('postgres', q{
			ALTER TABLE r ALTER a TYPE bigint;
			SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'r_pkey'}),
		'btree', 'ALTER TYPE of the column makes it a btree again');
}

# A temporary table of another session.
my $temp = $node->background_psql('postgres', on_error_die => 1);
my $schema = $temp->query_safe(q{
	CREATE TEMP TABLE mine (a int);
	CREATE INDEX mine_a ON mine (a);
	SELECT bunbtree_adopt('mine_a');
	SELECT bunbtree_release('mine_a');
	SELECT pg_my_temp_schema()::regnamespace});
$schema =~ s/\s//g;
($rc, $stdout, $stderr) = $node->psql('postgres', "SELECT bunbtree_adopt('$schema.mine_a')");
like($stderr, qr/"mine_a" belongs to a temporary table of another session/,
	'temporary table of another session');
is($node->safe_psql('postgres', "SELECT count(*) FROM bunbtree_candidates WHERE indexrelname = 'mine_a'"),
	'0', 'nor is it a candidate');
$temp->quit;

#
# A standby that serves queries across a conversion.
#
$node->safe_psql('postgres', q{
	CREATE TABLE s (a int, b int);
	INSERT INTO s SELECT i, i FROM generate_series(1, 10000) i;
	CREATE INDEX s_ab ON s (a, b);
	ANALYZE s});
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = -1');
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));

my $reader = $standby->background_psql('postgres', on_error_die => 1);
$reader->query_safe(q{
	SET enable_seqscan = off;
	SET enable_bitmapscan = off;
	SET plan_cache_mode = force_generic_plan;
	PREPARE page (int, int) AS SELECT a FROM s WHERE (a, b) > ($1, $2) ORDER BY a, b LIMIT 2});
is($reader->query_safe('EXECUTE page (70, 70)'), "71\n72", 'query on the standby');
for my $direction (qw(adopt release adopt))
{
	$node->safe_psql('postgres', qq{
		SELECT bunbtree_$direction('s_ab');
		INSERT INTO s SELECT i, i FROM generate_series(1, 2000) i});
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	like($reader->query_safe('EXECUTE page (20000, 0); EXECUTE page (9000, 9000)'), qr/^9001\n9002$/m,
		"the same plan after $direction");
}
like($reader->query_safe('EXPLAIN (COSTS OFF) EXECUTE page (1, 1)'), qr/using s_ab/,
	'it uses the index');
is($standby->safe_psql('postgres', q{SELECT bunbtree_check('s_ab', true)}), '',
	'amcheck passes on the standby');

# While a query of the standby holds the table, replay of a conversion waits.
$reader->query_safe('BEGIN; EXECUTE page (70, 70)');
$node->safe_psql('postgres', q{SELECT bunbtree_release('s_ab')});
my $target = $node->lsn('insert');
$standby->poll_query_until('postgres', q{
	SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE backend_type = 'startup'})
  or die 'replay did not wait';
is($reader->query_safe('EXECUTE page (8000, 8000)'), "8001\n8002", 'the transaction goes on');
$reader->query_safe('COMMIT');
$node->wait_for_catchup($standby, 'replay', $target);
is($reader->query_safe('EXECUTE page (8000, 8000)'), "8001\n8002", 'and the next');
$reader->quit;

(undef, undef, $stderr) = $standby->psql('postgres', q{SELECT bunbtree_adopt('s_ab')});
like($stderr, qr/cannot execute bunbtree_adopt\(\) during recovery/, 'no conversion on a standby');
is($standby->safe_psql('postgres', q{SELECT bunbtree_adopt_refusal('s_ab'), count(*) > 0 FROM bunbtree_candidates}),
	'|t', 'but advice');

$standby->stop;
$node->stop;
done_testing();
