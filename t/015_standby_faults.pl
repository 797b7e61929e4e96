
# Standbys without the library: they replay, and it is queries that need it.
# Recovery conflicts, hot_standby_feedback, promotion under load.

use strict;
use warnings;

use File::Copy;
use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stress;
use Test::More;
use Time::HiRes qw(usleep);

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
Stress::configure($primary);

# The library under a name that only the primary's search path leads to.
my $library_dir = PostgreSQL::Test::Utils::tempdir();
$primary->append_conf('postgresql.conf', "dynamic_library_path = '$library_dir:\$libdir'\n"
	  . "wal_keep_size = 2GB\n");
$primary->start;
my $major = int($primary->safe_psql('postgres', 'SHOW server_version_num') / 10000);
my $installed = $primary->safe_psql('postgres',
	q{SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'}) . '/bunbtree.so';
copy($installed, "$library_dir/bunbtree_here.so") or die "copy: $!";
chmod 0755, "$library_dir/bunbtree_here.so" or die "chmod: $!";

my $stress = Stress->new(node => $primary, seed => 12, clients => 2, transactions => 30,
	no_maintenance => 1);
$stress->create;
$primary->safe_psql('postgres', q{
	DELETE FROM stress.probes WHERE tab = 'unlogged';
	CREATE TABLE plain_btree (k int PRIMARY KEY);
	INSERT INTO plain_btree VALUES (1);
	UPDATE pg_proc SET probin = 'bunbtree_here' WHERE probin = '$libdir/bunbtree'});

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
dynamic_library_path = '$libdir'
max_standby_streaming_delay = 50ms
wal_retrieve_retry_interval = 100ms
});
$standby->start;

sub catch_up
{
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	return;
}

# Entries that passes have deleted from an index.
sub deleted
{
	my ($index) = @_;

	return $primary->safe_psql('postgres',
		"SELECT entries_deleted FROM pg_stat_bunbtree WHERE indexrelname = '$index'");
}

sub try
{
	my ($node, $sql, $database) = @_;
	my ($rc, $stdout, $stderr) = $node->psql($database // 'postgres', $sql, on_error_stop => 1);

	return $rc == 0 && $stdout ne '' ? $stdout : $stderr;
}

#
# Without the library
#
$stress->start_round;
is($stress->finish_round, '', 'churn on the primary');
catch_up();
pass('the standby replays without the library');
like(try($standby, 'SELECT count(*) FROM bun.plain WHERE k = 1'),
	qr/could not access file "bunbtree_here"/, 'a table with a bunbtree index cannot be queried');
is(try($standby, 'SELECT 1'), '1', 'what needs no operator works');
if ($major < 18)
{
	is(try($standby, 'SELECT k FROM plain_btree WHERE k = 1'), '1',
		'up to 17, other tables can be queried');
}
else
{
	like(try($standby, 'SELECT k FROM plain_btree WHERE k = 1'),
		qr/could not access file "bunbtree_here"/,
		'from 18 on, nothing can that compares');
}

# The same on the primary: a library that goes missing.
foreach my $database (qw(rescued back preloading))
{
	$primary->safe_psql('template1', "CREATE DATABASE $database TEMPLATE postgres");
}
$primary->safe_psql('postgres',
	q{ALTER DATABASE preloading SET session_preload_libraries = 'bunbtree_here'});
is(try($primary, 'SELECT 1', 'preloading'), '1', 'a database that preloads the library');
rename "$library_dir/bunbtree_here.so", "$library_dir/away" or die "rename: $!";
my $missing = qr/could not access file "bunbtree_here"/;
like(try($primary, 'INSERT INTO bun.plain (id) VALUES (-1)'), $missing,
	'nor can it be written on the primary');
is(try($primary, 'INSERT INTO plain_btree VALUES (2); SELECT count(*) FROM plain_btree'), '2',
	'other tables can be written');
like(try($primary, 'DROP INDEX bun.plain_k'), $missing, 'DROP INDEX needs the library');
like(try($primary, 'DROP TABLE bun.keyed'), $missing, 'so does DROP TABLE');
like(try($primary, 'DROP EXTENSION bunbtree CASCADE'), $missing, 'so does DROP EXTENSION');

# Preloaded for a database, it is needed to connect.
like(try($primary, 'SELECT 1', 'preloading'), qr/FATAL:  $missing/,
	'no connection to a database that preloads it');
{
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=';
	is(try($primary, 'SELECT 1', 'preloading'), '1', 'but for a superuser who does not want it');
}
is(try($primary, 'ALTER DATABASE preloading RESET session_preload_libraries'), '',
	'that can be ended from another database');
is(try($primary, 'SELECT 1', 'preloading'), '1', 'and there is a connection again');

# The way out, if there is no library any more: let btree serve the indexes.
my $btree_handler = q{
	CREATE OR REPLACE FUNCTION bunbtree_handler(internal) RETURNS index_am_handler
		LANGUAGE internal AS 'bthandler'};
is(try($primary, $btree_handler, 'rescued'), '', 'another handler can be had without the library');
is(try($primary, 'SELECT stress.check(true) IS NOT NULL', 'rescued'), 't',
	'all rows are found through all indexes');
is(try($primary, 'SELECT count(*) FROM plain_btree WHERE k > 0', 'rescued'), '1',
	'other tables can be queried');
like(try($primary, 'SELECT * FROM pg_stat_bunbtree', 'rescued'), $missing,
	'functions of the extension do not work');
unlike(try($primary, 'DROP INDEX bun.plain_k; DROP TABLE bun.keyed; DROP EXTENSION bunbtree CASCADE', 'rescued'),
	qr/ERROR/, 'DROP works, of an index, a table, the extension');
is(try($primary, 'SELECT k FROM plain_btree WHERE k = 1', 'rescued'), '1', 'and all is well');

# Until then the indexes are plain btree indexes in all but name, and can be given
# back.  (With assertions, the server insists on the name when it writes.)
is(try($primary, $btree_handler, 'back'), '', 'a database that will be given back');
if ($primary->safe_psql('postgres', 'SHOW debug_assertions') eq 'off')
{
	is(try($primary, join('', map { qq{
			UPDATE $_.plain SET k = k + 1, t = t;
			DELETE FROM $_.plain WHERE k % 3 = 0;
			INSERT INTO $_.plain SELECT 99, i, i FROM generate_series(1, 3000) i;
			INSERT INTO $_.keyed SELECT 'new' || i, 99, i FROM generate_series(1, 3000) i;
			VACUUM $_.plain;} } qw(bt bun)) . 'SELECT stress.check(true) IS NOT NULL', 'back'), 't',
		'with the other handler, tables can be written');
}
rename "$library_dir/away", "$library_dir/bunbtree_here.so" or die "rename: $!";
is(try($primary, q{
		CREATE OR REPLACE FUNCTION bunbtree_handler(internal) RETURNS index_am_handler
			LANGUAGE c AS 'bunbtree_here'}, 'back'), '', 'the library is back: so is its handler');
is(try($primary, 'SELECT stress.check(true) IS NOT NULL; SELECT stress.amcheck() IS NOT NULL', 'back'),
	"t\nt", 'nothing is lost there');
is($stress->check, '', 'nor where nothing was done');

# A server whose shared_preload_libraries names what is not there does not start.
$standby->stop;
$standby->command_fails_like(
	[ 'postgres', '-D', $standby->data_dir, '-c', 'shared_preload_libraries=bunbtree_here' ],
	qr/FATAL:  $missing/, 'no start with a missing library preloaded; it says why');

# Installed: nothing else is needed.
$standby->append_conf('postgresql.conf', "dynamic_library_path = '$library_dir:\$libdir'");
$standby->start;
catch_up();
is($stress->check($standby), '', 'with the library, the standby has the same rows through all indexes');

#
# Recovery conflicts.  A query that sees the rows is cancelled, a newer one is not.
#
$primary->safe_psql('postgres', q{
	CREATE TABLE t (k int, v text) WITH (autovacuum_enabled = off);
	CREATE INDEX t_k ON t USING bunbtree (k);
	INSERT INTO t SELECT i, 'first' FROM generate_series(1, 2000) i});
# No index scan marks entries, and there is no VACUUM.
my $churn = q{
	SET enable_indexscan = off; SET enable_bitmapscan = off;
	DELETE FROM t;
	INSERT INTO t SELECT i, 'next' FROM generate_series(1, 2000) i ORDER BY hashint4(i);
};
$primary->safe_psql('postgres', $churn x 4);
# Whoever reads a heap page prunes it, which conflicts, too.  So nobody does, once the
# rows are deleted: insertions do not.
$primary->safe_psql('postgres', q{
	CREATE TABLE gone (k int) WITH (autovacuum_enabled = off);
	CREATE INDEX gone_k ON gone USING bunbtree (k);
	INSERT INTO gone SELECT i FROM generate_series(1, 2000) i});
catch_up();
my $old = $standby->background_psql('postgres', on_error_stop => 0);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$old->query_safe('SELECT count(*) FROM gone');
$primary->safe_psql('postgres', 'DELETE FROM gone');
$primary->safe_psql('postgres',
	'INSERT INTO gone SELECT i FROM generate_series(1, 2000) i ORDER BY hashint4(i);' x 2);
cmp_ok(deleted('gone_k'), '>', 0, 'passes delete what a standby query sees');
catch_up();
$old->{stderr} = '';
eval { $old->query('SELECT count(*) FROM gone') };
like($old->{stderr}, qr/conflict with recovery/, 'the query is cancelled');
eval { $old->quit };

# The horizon is that of the row deleted last, wherever it is: here a pass finds what two
# transactions have deleted, and first what the second has, since the leaf page has fewer
# entries for the last heap block than for any other.  No query prunes them.
$primary->safe_psql('postgres', q{
	CREATE TABLE twice (k int, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO twice SELECT 2 * i, repeat('x', 80) FROM generate_series(1, 400) i;
	CREATE INDEX twice_k ON twice USING bunbtree (k) WITH (fillfactor = 100)});
my ($first, $second) = map {
	$primary->safe_psql('postgres', qq{
		SET enable_seqscan = off;
		BEGIN;
		DELETE FROM twice WHERE ctid = ANY (ARRAY(
			SELECT format('($_, %s)', i)::tid FROM generate_series(1, 40) i));
		SELECT pg_current_xact_id();
		COMMIT})
} (5, 2);
my $start = $primary->lsn('insert');
$primary->safe_psql('postgres', q{
	SET synchronous_commit = on;
	INSERT INTO twice SELECT 2 * i + 1 FROM generate_series(1, 20) i});
is(deleted('twice_k'), 80, 'a pass deletes what two transactions have deleted');
my ($wal, $stderr) = run_command([ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal',
		'-r', 'Btree', '-s', $start, '-e', $primary->lsn('flush') ]);
my @horizons = $wal =~ /desc: DELETE (?:latestRemovedXid|snapshotConflictHorizon:?) (\d+)/g;
isnt($first, $second, 'they are two');
is("@horizons", $second, 'the conflict horizon is that of the second');

my $before = deleted('t_k');
my $conflicts = $standby->safe_psql('postgres',
	q{SELECT sum(confl_snapshot) FROM pg_stat_database_conflicts});
my $new = $standby->background_psql('postgres', on_error_stop => 0);
$new->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($new->query_safe('SELECT count(*) FROM t'), 2000, 'a newer query');
# Garbage that nobody could ever see, of an aborted transaction: its deletion is in
# nobody's way.
$primary->safe_psql('postgres', q{
	DO $$
	BEGIN
		FOR round IN 1 .. 6
		LOOP
			INSERT INTO t SELECT i, 'aborted' FROM generate_series(1, 2000) i;
			ROLLBACK;
		END LOOP;
	END
	$$});
cmp_ok(deleted('t_k'), '>', $before, 'while passes delete aborted rows,');
catch_up();
is($new->query_safe('SELECT count(*) FROM t'), 2000, 'it is not disturbed');
is($standby->safe_psql('postgres',
		q{SELECT sum(confl_snapshot) FROM pg_stat_database_conflicts}),
	$conflicts, 'no conflict is counted');
$new->query_safe('COMMIT');
$new->quit;

#
# hot_standby_feedback: the primary waits with the deletion, and no query is lost.
#
$standby->append_conf('postgresql.conf', q{
hot_standby_feedback = on
wal_receiver_status_interval = 1s});
$standby->reload;
my $fed = $standby->background_psql('postgres', on_error_stop => 0);
$fed->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$fed->query_safe('SELECT count(*) FROM t');
my $xmin = $standby->safe_psql('postgres', 'SELECT txid_snapshot_xmin(txid_current_snapshot())');
$primary->poll_query_until('postgres',
	"SELECT backend_xmin IS NOT NULL AND backend_xmin::text::bigint <= $xmin FROM pg_stat_replication")
  or die 'no feedback';
$primary->safe_psql('postgres', $churn x 4);
catch_up();
is($fed->query_safe('SELECT count(*) FROM t'), 2000, 'with feedback, the query goes on');
$fed->query_safe('COMMIT');
$fed->quit;

#
# Promotion under load
#
$stress->{transactions} = 200;
$stress->start_round;
usleep(1_000_000);
$standby->promote;
is($stress->finish_round, '', 'churn on the old primary went on');
$primary->stop;

# Statements of which the standby has seen the first half only are not committed.
$stress->{node} = $standby;
$stress->tidy;
is($stress->check, '', 'the promoted standby has the same rows in both');
$stress->{transactions} = 20;
$stress->start_round;
is($stress->finish_round, '', 'it can be written');
is($stress->check, '', 'and still has the same rows');
is($standby->safe_psql('postgres', q{SELECT bunbtree_check('t_k', true, true)}), '', 'amcheck passes');

$standby->stop;
is(Stress::complaints(slurp_file($primary->logfile)), '', 'no complaint in the log of the primary');
is(Stress::complaints(slurp_file($standby->logfile)), '', 'nor of the standby');
done_testing();
