
# Compaction while others read and write, on the primary and on a standby, and in
# sessions that remember the shape of the tree.
#
# BUNBTREE_COMPACT_DURATION	seconds of load (default 6)

use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $duration = $ENV{BUNBTREE_COMPACT_DURATION} || 6;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
autovacuum = off
synchronous_commit = off
wal_consistency_checking = 'btree'
max_connections = 40
});
$primary->start;

# Every tenth row is an anchor: it is always there.  All others come and go.  Each
# index has its own condition, so that there is no choice.
my $anchors = 2000;
my %indexes = (
	churn_k => 'k > 0',
	churn_n => 'n > 0',
	churn_t => q{t > ''});
$primary->safe_psql('postgres', qq{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE TABLE churn (k int, n numeric, t text COLLATE "C", anchor boolean)
		WITH (autovacuum_enabled = off);
	INSERT INTO churn SELECT i, i / 7.0, 't' || i % 500, i % 10 = 0
		FROM generate_series(1, 10 * $anchors) i;
	CREATE INDEX churn_k ON churn USING bunbtree (k) WITH (fillfactor = 20);
	CREATE INDEX churn_n ON churn USING btree (n) WITH (fillfactor = 20);
	CREATE INDEX churn_t ON churn USING bunbtree (t) WITH (fillfactor = 20);
	-- All anchors, in order, by an index scan in this direction?
	CREATE FUNCTION check_anchors(cond text, col text, direction text) RETURNS void
	LANGUAGE plpgsql
	SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
	AS \$\$
	DECLARE
		found bigint;
		in_order boolean;
	BEGIN
		EXECUTE format('SELECT count(*), bool_and(coalesce(CASE %3\$L WHEN '''' THEN before <= x ELSE before >= x END, true))'
			' FROM (SELECT x, lag(x) OVER () AS before FROM (SELECT %2\$I AS x FROM churn'
			' WHERE %1\$s AND anchor ORDER BY %2\$I %3\$s) s) s', cond, col, direction)
			INTO found, in_order;
		IF found <> $anchors OR NOT in_order THEN
			RAISE 'anchors WHERE % ORDER BY % %: %, in order: %', cond, col, direction, found, in_order;
		END IF;
	END
	\$\$;
	CREATE FUNCTION check_equal(k int) RETURNS void LANGUAGE plpgsql
	SET enable_seqscan = off SET enable_bitmapscan = off
	AS \$\$
	BEGIN
		IF (SELECT count(*) FROM churn c WHERE c.k = check_equal.k AND anchor) <> 1 THEN
			RAISE 'anchor % is lost', k;
		END IF;
	END
	\$\$});

# However far behind the standby is, it gets all of it.
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
# Queries there are not cancelled: replay waits, and they must be right.
$standby->append_conf('postgresql.conf', q{
primary_slot_name = 'standby'
max_standby_streaming_delay = -1
});
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

my $dir = PostgreSQL::Test::Utils::tempdir();
my $read = '';
foreach my $index (sort keys %indexes)
{
	my $column = $index =~ s/churn_//r;

	$read .= "SELECT check_anchors(\$\$$indexes{$index}\$\$, '$column', '$_');\n" for '', 'DESC';
}
append_to_file("$dir/read.sql", $read
	  . "\\set k random(1, $anchors)\nSELECT check_equal((:k * 10)::int);\n");
append_to_file("$dir/write.sql", qq{
\\set k random(1, 10 * $anchors)
\\set many random(1, 3000)
DELETE FROM churn WHERE k BETWEEN :k AND :k + :many AND NOT anchor;
INSERT INTO churn SELECT :k + i, (:k + i) / 7.0, 't' || i % 500, false FROM generate_series(1, :many / 10) i;
});
append_to_file("$dir/vacuum.sql", "VACUUM churn;\n\\sleep 100 ms\n");
append_to_file("$dir/compact.sql", join '',
	"SET client_min_messages = warning;\n",
	map { "CALL bunbtree_compact('$_', pause => '0', max_pages => 20, max_runtime => '100 ms', wait => true);\n" }
	  sort keys %indexes);

sub pgbench
{
	my ($node, $script, $clients) = @_;
	my $job = { what => "$script on " . $node->name, out => '', err => '' };

	$job->{run} = IPC::Run::start(
		[ 'pgbench', '-n', '-T', $duration, '-c', $clients, '-f', "$dir/$script.sql",
			'-h', $node->host, '-p', $node->port, 'postgres' ],
		'>', \$job->{out}, '2>', \$job->{err});
	return $job;
}

my @jobs = (
	pgbench($primary, 'read', 1), pgbench($primary, 'write', 2),
	pgbench($primary, 'vacuum', 1), pgbench($primary, 'compact', 1),
	pgbench($standby, 'read', 2));
foreach my $job (@jobs)
{
	my $ok = IPC::Run::finish($job->{run});
	my ($done) = $job->{out} =~ /transactions actually processed: (\d+)/;

	is($job->{err} =~ s/^pgbench \(.*\n//r, '', "$job->{what}: no error");
	ok($ok && $done, "$job->{what}: something was done");
}
cmp_ok($primary->safe_psql('postgres',
		q{SELECT min(leaves_merged) FROM pg_stat_bunbtree WHERE relname = 'churn'}),
	'>', 20, 'leaf pages were merged meanwhile');

$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
my $count = $primary->safe_psql('postgres', 'SELECT count(*) FROM churn');
foreach my $index (sort keys %indexes)
{
	my $scan = qq{SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(*) FROM churn WHERE $indexes{$index}};

	is($primary->safe_psql('postgres', $scan), $count, "$index has all rows");
	is($standby->safe_psql('postgres', $scan), $count, 'also on the standby');
}
$primary->safe_psql('postgres', q{
	SELECT bunbtree_check('churn_k', true, true);
	SELECT bunbtree_check('churn_t', true, true);
	SELECT bt_index_parent_check('churn_n', true, true)});
pass('amcheck is satisfied');
$standby->safe_psql('postgres', q{
	SELECT bunbtree_check('churn_k', true);
	SELECT bunbtree_check('churn_t', true);
	SELECT bt_index_check('churn_n', true)});
pass('also on the standby');
$standby->stop;

#
# A session remembers the root, and the block of the rightmost page.  Compaction
# leaves it one leaf page of many, so that another page is the fast root.
#
$primary->safe_psql('postgres', q{
	CREATE TABLE cached (k int) WITH (autovacuum_enabled = off);
	CREATE INDEX cached_k ON cached USING bunbtree (k) WITH (fillfactor = 10);
	CREATE INDEX cached_btree ON cached USING btree (k) WITH (fillfactor = 10);
	INSERT INTO cached SELECT generate_series(1, 10000);
	REINDEX TABLE cached;
	DELETE FROM cached WHERE k > 150;
	VACUUM cached});
my $session = $primary->background_psql('postgres', on_error_stop => 1);
my $scan = q{SELECT count(*), max(k) FROM (SELECT k FROM cached WHERE k > 0 ORDER BY k) s;};
$session->query_safe(q{SET enable_seqscan = off; SET enable_bitmapscan = off;
	INSERT INTO cached SELECT generate_series(10001, 10100);});
is($session->query_safe($scan), '250|10100', 'a session that knows the tree');
my $before = $primary->safe_psql('postgres', q{SELECT leaf_pages FROM bunbtree_compact_estimate('cached_k')});
$primary->safe_psql('postgres', q{CALL bunbtree_compact('cached_k', pause => '0', wait => true)});
$primary->safe_psql('postgres', q{CALL bunbtree_compact('cached_btree', pause => '0', wait => true)});
my $now = $primary->safe_psql('postgres', q{SELECT leaf_pages FROM bunbtree_compact_estimate('cached_k')});
cmp_ok($before, '>', 2, 'there were several leaf pages');
is($now, 1, 'all are merged');
$session->query_safe(q{INSERT INTO cached SELECT generate_series(10101, 20000);});
is($session->query_safe($scan), '10150|20000', 'it goes on as before');
$session->quit;
$primary->safe_psql('postgres', q{
	SELECT bunbtree_check('cached_k', true, true);
	SELECT bt_index_parent_check('cached_btree', true, true)});

# Only from the second level up is the rightmost page remembered.
$primary->safe_psql('postgres', q{
	CREATE TABLE appended (k int) WITH (autovacuum_enabled = off);
	INSERT INTO appended SELECT generate_series(1, 100000);
	CREATE INDEX appended_k ON appended USING bunbtree (k) WITH (fillfactor = 10);
	CREATE INDEX appended_btree ON appended USING btree (k) WITH (fillfactor = 10);
	DELETE FROM appended WHERE k % 20 <> 0;
	VACUUM appended});
my $appended = q{SELECT declined_append + passes_append FROM pg_stat_bunbtree WHERE indexrelname = 'appended_k'};
$session = $primary->background_psql('postgres', on_error_stop => 1);
$session->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off');
my $rows = 5000;
foreach my $round (0 .. 2)
{
	my ($first, $last) = (100001 + 1000 * $round, 101000 + 1000 * $round);
	my $remembered = $primary->safe_psql('postgres', $appended);

	$session->query_safe("INSERT INTO appended SELECT generate_series($first, $last)");
	$rows += 1000;
	# Insertions that may ask, and have no need to, are not counted.
	cmp_ok($primary->safe_psql('postgres', $appended), '>', $remembered + 100,
		"round $round: the rightmost page is remembered");
	$primary->safe_psql('postgres', qq{CALL bunbtree_compact('$_', pause => '0', wait => true)})
	  foreach qw(appended_k appended_btree);
	is($session->query_safe($scan =~ s/cached/appended/r), "$rows|$last",
		'and compaction does not mislead the session');
}
$session->quit;
cmp_ok($primary->safe_psql('postgres', q{
		SELECT leaves_merged FROM pg_stat_bunbtree WHERE indexrelname = 'appended_k'}),
	'>', 2000, 'leaf pages were merged');
$primary->safe_psql('postgres', q{
	SELECT bunbtree_check('appended_k', true, true);
	SELECT bt_index_parent_check('appended_btree', true, true)});
$primary->stop;

#
# wal_level = minimal, and a crash.
#
my $minimal = PostgreSQL::Test::Cluster->new('minimal');
$minimal->init;
$minimal->append_conf('postgresql.conf', q{
autovacuum = off
wal_level = minimal
max_wal_senders = 0
});
$minimal->start;
$minimal->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
	INSERT INTO t SELECT generate_series(1, 20000);
	CREATE INDEX t_k ON t USING bunbtree (k) WITH (fillfactor = 20)});
$minimal->safe_psql('postgres', q{CHECKPOINT});
$minimal->safe_psql('postgres', q{CALL bunbtree_compact('t_k', pause => '0')});
# Slices do not wait for their WAL to be flushed.
$minimal->safe_psql('postgres', q{CREATE TABLE flushed ()});
my $leaves = $minimal->safe_psql('postgres', q{SELECT leaf_pages FROM bunbtree_compact_estimate('t_k')});
$minimal->stop('immediate');
$minimal->start;
is($minimal->safe_psql('postgres', q{
	CREATE EXTENSION amcheck;
	SELECT leaf_pages FROM bunbtree_compact_estimate('t_k');
	SELECT bunbtree_check('t_k', true, true);
	SET enable_seqscan = off;
	SELECT count(*), sum(k) FROM (SELECT k FROM t WHERE k > 0 ORDER BY k) s}),
	"$leaves\n\n20000|200010000", 'wal_level = minimal, a crash after compaction');
cmp_ok($leaves, '<', 100, 'it was compacted');
$minimal->stop;

done_testing();
