
# What the executor is told so that it takes a bunbtree index for one of btree, up
# to PostgreSQL 17: does the library get there in time, do others' hooks work
# along with it, do parallel workers know, and REFRESH?

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
enable_seqscan = off
enable_sort = off
enable_bitmapscan = off
});
$node->start;
$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/../sql/setup.sql"));
$node->safe_psql('postgres', q{
	CREATE TABLE t (a int, b int, v text);
	CREATE UNIQUE INDEX t_ab ON t USING bunbtree (a, b);
	INSERT INTO t SELECT i / 100, i % 100, 'old' FROM generate_series(0, 19999) i;

	CREATE TABLE p (a int, v text) PARTITION BY RANGE (a);
	CREATE TABLE p_0 PARTITION OF p FOR VALUES FROM (0) TO (100);
	CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (100) TO (200);
	CREATE UNIQUE INDEX p_0_a ON p_0 USING bunbtree (a);
	CREATE UNIQUE INDEX p_1_a ON p_1 USING bunbtree (a);
	INSERT INTO p VALUES (1, 'old'), (101, 'old');

	-- What decides here is a btree index.
	CREATE TABLE k (a int PRIMARY KEY, b int, v text) PARTITION BY RANGE (a);
	CREATE TABLE k_0 PARTITION OF k FOR VALUES FROM (0) TO (100);
	CREATE UNIQUE INDEX k_0_b ON k_0 USING bunbtree (b);
	INSERT INTO k VALUES (1, 1, 'old');
	VACUUM ANALYZE t, p, k;

	-- Statements within others' runs, and at their end.
	CREATE FUNCTION nested() RETURNS bigint
	LANGUAGE sql
	AS $$
		INSERT INTO p VALUES (1, 'nested'), (3, 'nested') ON CONFLICT DO NOTHING;
		SELECT count(*) FROM (SELECT FROM t WHERE (a, b) > (198, 98) ORDER BY a, b FOR UPDATE) l;
	$$;
	CREATE FUNCTION nest() RETURNS trigger
	LANGUAGE plpgsql
	AS 'BEGIN PERFORM nested(); RETURN NULL; END';
	CREATE TABLE nesting (n int);
	CREATE TRIGGER nest AFTER INSERT ON nesting FOR EACH ROW EXECUTE FUNCTION nest();
});

my $until_17 = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000) < 18;
my $assertions = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';

# Statements as a fresh session's first: what they return, and then the error.
sub first_statement
{
	my ($command) = @_;

	my ($rc, $stdout, $stderr) = $node->psql('postgres', $command,
		on_error_stop => 1);
	$stderr =~ s/^psql:<stdin>:\d+: //;
	$stderr =~ s/\n.*//s;
	return $stdout . $stderr;
}

my %statements = (
	update => q{INSERT INTO t VALUES (0, 1, 'new') ON CONFLICT (a, b) DO UPDATE SET v = excluded.v RETURNING *},
	nothing => q{INSERT INTO t VALUES (0, 1, 'new'), (1000, 1, 'new') ON CONFLICT DO NOTHING RETURNING *},
	key => q{INSERT INTO k VALUES (1, 1, 'new') ON CONFLICT (a) DO UPDATE SET v = excluded.v RETURNING *},
	parts => q{INSERT INTO p VALUES (1, 'new'), (2, 'new'), (101, 'new') ON CONFLICT DO NOTHING RETURNING *},
	compare => q{SELECT a, b FROM t WHERE (a, b) > (5, 98) ORDER BY a, b LIMIT 2},
	lock => q{SELECT a, b FROM t WHERE (a, b) > (5, 98) ORDER BY a, b LIMIT 2 FOR UPDATE});
my %results = (
	update => "0|1|new",
	nothing => "1000|1|new",
	key => "1|1|new",
	parts => "2|new",
	compare => "5|99\n6|0",
	lock => "5|99\n6|0");

# Run each in a session of its own, and undo it.
sub check_statements
{
	my ($what, %expected) = @_;

	foreach my $name (sort keys %statements)
	{
		is(first_statement("BEGIN; $statements{$name}; ROLLBACK"),
			$expected{$name}, "$what: $name");
	}
	return;
}

# Without preloading, the library is loaded when an index is first opened.  For
# an inference, or a scan, the planner does that.  DO NOTHING without a target, and
# partitions, come to the executor first.
my $refusal = 'ERROR:  unexpected non-btree speculative unique index';
check_statements('library not preloaded', %results,
	$until_17 ? (key => $refusal, nothing => $refusal, parts => $refusal) : ());
is(first_statement("SELECT v FROM t WHERE a = 0 AND b = 1; BEGIN; $statements{parts}; ROLLBACK"),
	"old\n$results{parts}", 'library loaded by a query');

# The way out.
$node->safe_psql('postgres',
	q{ALTER DATABASE postgres SET session_preload_libraries = bunbtree});
check_statements('session_preload_libraries', %results);
$node->safe_psql('postgres',
	q{ALTER DATABASE postgres RESET session_preload_libraries});
is(first_statement("LOAD 'bunbtree'; BEGIN; $statements{nothing}; ROLLBACK"),
	$results{nothing}, 'library loaded by hand');

# Others' hooks, on either side of ours.
foreach my $libraries ('bunbtree, pg_stat_statements, auto_explain',
	'auto_explain, pg_stat_statements, bunbtree')
{
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = '$libraries'
pg_stat_statements.track = all
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
auto_explain.log_timing = off
auto_explain.log_nested_statements = on
});
	$node->restart;
	$node->safe_psql('postgres', q{
		CREATE EXTENSION IF NOT EXISTS pg_stat_statements;
		SELECT pg_stat_statements_reset()});
	my $from = -s $node->logfile;
	check_statements($libraries, %results);

	my $log = slurp_file($node->logfile, $from);
	like($log, qr/Conflict Arbiter Indexes: t_ab\n\s*Tuples Inserted: 0\n\s*Conflicting Tuples: 1/,
		"$libraries: upsert explained");
	like($log, qr/Insert on p.*\n\s*Conflict Resolution: NOTHING\n\s*Tuples Inserted: 1\n\s*Conflicting Tuples: 2/,
		"$libraries: upsert of a partitioned table explained");
	like($log, qr/LockRows.*\n.*Index Scan using t_ab on t .*\n\s*Index Cond: \(ROW\(a, b\) > ROW\(5, 98\)\)/,
		"$libraries: row comparison explained");
	is($node->safe_psql('postgres', q{
			SELECT sum(calls), sum(rows) FROM pg_stat_statements
			WHERE query LIKE 'INSERT INTO %' OR query LIKE 'SELECT a, b%'}),
		'6|8', "$libraries: statements counted");

	$node->safe_psql('postgres', q{
		SELECT pg_stat_statements_reset();
		BEGIN;
		SELECT nested();
		INSERT INTO nesting VALUES (1);
		ROLLBACK});
	is($node->safe_psql('postgres', q{
			SELECT toplevel, calls, rows FROM pg_stat_statements
			WHERE query LIKE '%INTO p%' OR query LIKE '%FOR UPDATE%' ORDER BY query}),
		"f|2|1\nf|2|2", "$libraries: statements within others counted");
}

# Parallel workers get their plans from the leader.
my $parallel = q{
	SET parallel_setup_cost = 0;
	SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0;
	SET min_parallel_index_scan_size = 0;
	SET parallel_leader_participation = off;
	SET max_parallel_workers_per_gather = 2;
};
my $query = 'SELECT count(*), sum(b) FROM t WHERE (a, b) > (50, 50)';
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', q{''});
$node->restart;
foreach my $preload (0, 1)
{
	my $command = ($preload ? "LOAD 'bunbtree';" : '') . $parallel;
	my $what = $preload ? 'library loaded by hand' : 'library not preloaded';

	like($node->safe_psql('postgres',
			"$command EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query"),
		qr/Workers Launched: [12]\n.*Parallel Index Only Scan using t_ab on t.*\n\s*Index Cond: \(ROW/s,
		"parallel workers, $what: launched");
	is($node->safe_psql('postgres', "$command $query"), '14949|741225',
		"parallel workers, $what: result");
}

# REFRESH MATERIALIZED VIEW CONCURRENTLY.
$node->safe_psql('postgres', q{
	CREATE TABLE source (x int, v int);
	INSERT INTO source SELECT i, i FROM generate_series(1, 100) i;
	CREATE FUNCTION checked(v int) RETURNS int
	LANGUAGE plpgsql
	AS $$
	BEGIN
		IF v = 0 THEN
			RAISE 'zero';
		END IF;
		RETURN v;
	END
	$$;
	CREATE MATERIALIZED VIEW m AS SELECT x, checked(v) AS v FROM source;
	CREATE UNIQUE INDEX m_x ON m USING bunbtree (x);
	CREATE ROLE nobody;
});
my $refresh = 'REFRESH MATERIALIZED VIEW CONCURRENTLY m';

# 002_limits.pl tests the error that there is else.
if (!$until_17 || !$assertions)
{
	# As a session's first statement, it loads the library when it looks at the
	# view's indexes, which is too late.
	is(first_statement($refresh),
		$until_17 ? 'ERROR:  cannot refresh materialized view "public.m" concurrently' : '',
		'refresh concurrently: library not preloaded');
	is(first_statement("LOAD 'bunbtree'; DELETE FROM source WHERE x <= 10;
			UPDATE source SET v = -1 WHERE x > 95;
			INSERT INTO source VALUES (101, 101); $refresh;
			SELECT count(*), sum(v), disguises() FROM m"),
		'91|4601|0', 'refresh concurrently');
	is(first_statement("LOAD 'bunbtree'; BEGIN;
			UPDATE source SET v = 0 WHERE x = 50; $refresh"),
		'ERROR:  zero', 'refresh concurrently: error in the query');
	is($node->safe_psql('postgres', "LOAD 'bunbtree';
			DO \$\$
			BEGIN
				UPDATE source SET v = 0 WHERE x = 50;
				$refresh;
			EXCEPTION WHEN raise_exception THEN
				NULL;
			END \$\$;
			SELECT disguises()"),
		'0', 'refresh concurrently: error caught');
	is(first_statement("LOAD 'bunbtree';
			INSERT INTO source VALUES (20, 20); $refresh"),
		'ERROR:  new data for materialized view "m" contains duplicate rows without any null columns',
		'refresh concurrently: duplicate');
}
like(first_statement("LOAD 'bunbtree'; SET ROLE nobody; $refresh"),
	qr/ERROR:  (must be owner of|permission denied for) materialized view m/,
	'refresh concurrently: not the owner');
like(first_statement("LOAD 'bunbtree'; REFRESH MATERIALIZED VIEW CONCURRENTLY missing"),
	qr/ERROR:  relation "missing" does not exist/,
	'refresh concurrently: no such view');
like(first_statement("LOAD 'bunbtree'; REFRESH MATERIALIZED VIEW CONCURRENTLY t"),
	qr/ERROR:  "t" is not a materialized view/,
	'refresh concurrently: a table');

$node->stop;
done_testing();
