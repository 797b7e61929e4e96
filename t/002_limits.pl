
# What core refuses to do with an index that is not a btree, server version by
# server version: the table "Limits" in README.md.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE TABLE a (x int NOT NULL, y int NOT NULL);
	CREATE UNIQUE INDEX a_x ON a USING bunbtree (x);
	CREATE INDEX a_xy ON a USING bunbtree (x, y);
	INSERT INTO a SELECT i, i FROM generate_series(1, 10000) i;
	ANALYZE a;
	CREATE TABLE p (x int) PARTITION BY RANGE (x);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
	CREATE MATERIALIZED VIEW m AS SELECT x FROM a;
	CREATE UNIQUE INDEX m_x ON m USING bunbtree (x);
	CREATE TABLE e (x int, y int, EXCLUDE USING bunbtree (x WITH =));
});

my $assertions = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);

# Runs a command in a transaction that is rolled back.  Without an expected
# error, it has to work.
sub try_command
{
	my ($what, $command, $error) = @_;

	# As if the library was preloaded: 012_executor.pl has what happens else.
	my ($rc, $stdout, $stderr) = $node->psql('postgres',
		"LOAD 'bunbtree'; BEGIN; $command; ROLLBACK",
		on_error_stop => 1);
	if (defined $error)
	{
		like($stderr, qr/\Q$error\E/, "$what: refused");
	}
	else
	{
		is($rc, 0, "$what: works") or diag $stderr;
	}
	return;
}

my $constraint = 'index "a_x" is not a btree';
my $until_17 = sub { return $major < 18 ? $_[0] : undef };

try_command('unique constraint from an index',
	'ALTER TABLE a ADD CONSTRAINT c UNIQUE USING INDEX a_x', $constraint);
try_command('primary key from an index',
	'ALTER TABLE a ADD CONSTRAINT c PRIMARY KEY USING INDEX a_x', $constraint);
try_command('exclusion constraint',
	'ALTER TABLE a ADD CONSTRAINT c EXCLUDE USING bunbtree (x WITH =)');
try_command('cluster', 'CLUSTER a USING a_x');
foreach my $am ('btree', 'bunbtree')
{
	my (undef, undef, $log) = $node->psql('postgres', qq{
		BEGIN;
		SET LOCAL enable_indexscan = off;
		CREATE INDEX a_y ON a USING $am (y);
		CLUSTER VERBOSE a USING a_y;
		ROLLBACK});
	like($log,
		$am eq 'btree' ? qr/using sequential scan and sort/ : qr/using index scan on "a_y"/,
		"cluster, where sorting is cheaper: $am");
}
try_command('foreign key to a unique index',
	'CREATE TABLE f (x int REFERENCES a (x))',
	$until_17->('only b-tree indexes are supported for foreign keys'));
try_command('unique index on a partitioned table',
	'CREATE UNIQUE INDEX ON p USING bunbtree (x)',
	$until_17->('cannot match partition key to an index using access method "bunbtree"'));
try_command('insert on conflict do nothing',
	'INSERT INTO a VALUES (1, 1) ON CONFLICT DO NOTHING');
try_command('insert on conflict do update',
	'INSERT INTO a VALUES (1, 1) ON CONFLICT (x) DO UPDATE SET y = 2');
try_command('insert on conflict, exclusion constraint',
	'INSERT INTO e VALUES (1, 1), (1, 2) ON CONFLICT ON CONSTRAINT e_x_excl DO NOTHING');
# Operator classes are looked up among those of btree.
try_command('insert on conflict, operator class named',
	'INSERT INTO a VALUES (1, 1) ON CONFLICT (x int4_ops) DO NOTHING',
	'there is no unique or exclusion constraint matching the ON CONFLICT specification');
try_command('refresh materialized view concurrently',
	'REFRESH MATERIALIZED VIEW CONCURRENTLY m',
	$assertions ? $until_17->('cannot refresh materialized view "public.m" concurrently') : undef);

# A primary key gets a btree index.
is($node->safe_psql('postgres', q{
		CREATE TABLE k (x int PRIMARY KEY, y int UNIQUE);
		SELECT string_agg(amname, ',') FROM pg_index JOIN pg_class c ON c.oid = indexrelid
			JOIN pg_am am ON am.oid = relam WHERE indrelid = 'k'::regclass}),
	'btree,btree', 'primary key and unique constraint: btree');

# A row comparison is an index condition.
my $plan = $node->safe_psql('postgres', q{
	SET enable_seqscan = off;
	SET enable_bitmapscan = off;
	SET enable_sort = off;
	SET enable_incremental_sort = off;
	EXPLAIN (COSTS OFF)
	SELECT * FROM a WHERE (x, y) > (9000, 1) ORDER BY x, y LIMIT 10});
like($plan, qr/using a_xy.*Index Cond: \(ROW\(x, y\) > /s,
	'row comparison: index condition');
unlike($plan, qr/Filter/, 'row comparison: no filter');

# Parallel builds.
my (undef, undef, $stderr) = $node->psql('postgres', q{
	SET max_parallel_maintenance_workers = 2;
	SET min_parallel_table_scan_size = 0;
	SET client_min_messages = debug1;
	CREATE INDEX ON a USING bunbtree (y)});
like($stderr, $major < 18 ? qr/on table "a" serially/ : qr/with request for 1 parallel worker/,
	'index build: serial until 17, parallel from 18 on');

$node->stop;
done_testing();
