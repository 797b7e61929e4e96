# Compaction: a crash at its most delicate point, incomplete splits, full_page_writes
# off, standbys, synchronous replication, locks that are in its way, progress and
# cancellation.

use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
autovacuum = off
max_prepared_transactions = 2
wal_consistency_checking = all
wal_keep_size = 1GB
wal_writer_delay = 10s
full_page_writes = off
});
$primary->start;

# Tables with 20 % full leaf pages.
$primary->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
	INSERT INTO t SELECT generate_series(1, 20000);
	CREATE INDEX t_k ON t USING bunbtree (k) WITH (fillfactor = 20);
	CREATE INDEX t_btree ON t (k) WITH (fillfactor = 20);
	CREATE INDEX t_locks ON t USING bunbtree (k) WITH (fillfactor = 20);
	CREATE INDEX t_sync ON t USING bunbtree (k) WITH (fillfactor = 20);
	CREATE INDEX t_cancel ON t USING bunbtree (k) WITH (fillfactor = 20);
	CREATE INDEX t_owner ON t USING bunbtree (k) WITH (fillfactor = 20);
	CREATE INDEX t_again ON t USING bunbtree (k) WITH (fillfactor = 20);
	CREATE INDEX t_dense ON t USING bunbtree (k)});
$primary->backup('backup');

my $leaves = q{SELECT leaf_pages FROM bunbtree_compact_estimate};
my $before = $primary->safe_psql('postgres', "$leaves('t_k')");

# Counts by index and by the table, and amcheck.
sub check
{
	my ($node, $index, $name) = @_;
	my $am = $node->safe_psql('postgres',
		"SELECT amname FROM pg_am a JOIN pg_class c ON c.relam = a.oid WHERE c.oid = '$index'::regclass");
	my $function = $am eq 'btree' ? 'bt_index_parent_check' : 'bunbtree_check';

	my ($status, $out, $err) = $node->psql('postgres', qq{
		BEGIN;
		DO \$\$
		DECLARE other text;
		BEGIN
			FOR other IN SELECT indexrelid::regclass FROM pg_index
				WHERE indrelid = 't'::regclass AND indexrelid <> '$index'::regclass
			LOOP EXECUTE 'DROP INDEX ' || other; END LOOP;
		END \$\$;
		SET LOCAL enable_seqscan = off;
		SET LOCAL enable_bitmapscan = off;
		SELECT count(*), min(k), max(k), sum(k) FROM (SELECT k FROM t WHERE k > 0 ORDER BY k) s;
		-- each row by itself
		SELECT count(*) FROM generate_series(1, 20000) i WHERE EXISTS (SELECT FROM t WHERE k = i OFFSET 0);
		ROLLBACK;
		SELECT $function('$index', true, true)});
	is("$out|$err", "20000|1|20000|200010000\n20000\n|", $name);
}

# A server that stops to replay after a record, as if there had been a crash.
sub crashed_after
{
	my ($record) = @_;
	my $crashed = PostgreSQL::Test::Cluster->new("crashed_$record" =~ s{/}{_}r);

	$crashed->init_from_backup($primary, 'backup', has_streaming => 1);
	$crashed->append_conf('postgresql.conf', qq{
recovery_target_lsn = '$record'
recovery_target_inclusive = on
recovery_target_action = promote
});
	$crashed->start;
	$crashed->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
	  or die 'no promotion';
	return $crashed;
}

# Positions of the WAL records between two moments that pg_waldump describes so.
sub records
{
	my ($manager, $description, $start, $end) = @_;
	my ($wal, $stderr) = run_command(
		[ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal', '-r', $manager,
			'-s', $start, '-e', $end ]);

	return $wal =~ /lsn: (\S+), prev \S+, desc: $description/g;
}

#
# A crash between the record that merges pages and those that unlink them.
#
my $start = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$primary->safe_psql('postgres', q{CALL bunbtree_compact('t_k', pause => '0')});
$primary->safe_psql('postgres', q{CALL bunbtree_compact('t_btree', pause => '0')});
my $end = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
my $after = $primary->safe_psql('postgres', "$leaves('t_k')");
cmp_ok($after, '<', $before / 3, 'pages were merged');

my @records = records('XLOG', 'FPI ', $start, $end);
cmp_ok(@records, '>', 10, 'there are records of page images');
for my $record ($records[0], $records[7])
{
	my $crashed = crashed_after($record);

	check($crashed, 't_k', "crash after the record at $record: no row is lost");
	my $half_dead = q{
		SELECT count(*) FROM generate_series(1, pg_relation_size('t_k') / 8192 - 1) n,
			bt_page_stats('t_k', n) WHERE type = 'e'};
	$crashed->safe_psql('postgres', q{
		CREATE EXTENSION pageinspect;
		SELECT bunbtree_release('t_k')});
	cmp_ok($crashed->safe_psql('postgres', $half_dead), '>', 0,
		'there are half-dead pages');
	$crashed->safe_psql('postgres', q{
		SELECT bunbtree_adopt('t_k');
		CALL bunbtree_compact('t_k', pause => '0');
		SELECT bunbtree_release('t_k')});
	is($crashed->safe_psql('postgres', $half_dead), 0,
		'the next compaction finishes them');
	is($crashed->safe_psql('postgres', "$leaves('t_k')"), $after,
		'and does what was left to do');
	check($crashed, 't_k', 'no row is lost by that');
	$crashed->stop;
}

#
# A split that a crash has left incomplete: the right page has no downlink.  All its
# neighbours can be merged.
#
$primary->safe_psql('postgres', q{
	CREATE TABLE splits (k int, v int) WITH (autovacuum_enabled = off);
	INSERT INTO splits SELECT 1000 * i, 0 FROM generate_series(1, 1000) i;
	CREATE INDEX splits_k ON splits (k) WITH (fillfactor = 10)});
$start = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$primary->safe_psql('postgres', q{
	INSERT INTO splits SELECT 500000 + hashint4(i) % 100000, 1 FROM generate_series(1, 5000) i});
$end = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
my @splits = records('Btree', 'SPLIT_[LR] level:? 0', $start, $end);
cmp_ok(scalar(@splits), '>', 3, 'leaf pages were split');
{
	my $crashed = crashed_after($splits[3]);
	my $incomplete = q{
		SELECT count(*) FROM generate_series(1, pg_relation_size('splits_k') / 8192 - 1) n,
			bt_page_stats('splits_k', n) WHERE type = 'l' AND btpo_flags & 128 > 0};
	$crashed->safe_psql('postgres', 'CREATE EXTENSION pageinspect; VACUUM splits');
	is($crashed->safe_psql('postgres', $incomplete), 1, 'there is an incomplete split');
	my $all = q{SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT bt_index_parent_check('splits_k', true, true);
		SELECT count(*), sum(k) FROM (SELECT k FROM splits WHERE k > 0 ORDER BY k) s};
	my $sparse = $crashed->safe_psql('postgres', "$leaves('splits_k')");
	$crashed->safe_psql('postgres', q{CALL bunbtree_compact('splits_k', pause => '0')});
	cmp_ok($crashed->safe_psql('postgres', "$leaves('splits_k')"), '<', $sparse / 2,
		'pages around it are merged');
	is($crashed->safe_psql('postgres', $incomplete), 1, 'it is left alone');
	is($crashed->safe_psql('postgres', $all), "\n1000|500500000", 'the index is intact');
	# Whoever inserts there completes it.
	$crashed->safe_psql('postgres', q{
		INSERT INTO splits SELECT 400000 + i, 2 FROM generate_series(1, 300000, 10) i});
	is($crashed->safe_psql('postgres', $incomplete), 0, 'an insertion completes it');
	$crashed->safe_psql('postgres', q{
		DELETE FROM splits WHERE v = 2;
		VACUUM splits;
		CALL bunbtree_compact('splits_k', pause => '0')});
	is($crashed->safe_psql('postgres', $all), "\n1000|500500000", 'and so is it then');
	$crashed->stop;
}

#
# Pages that are deleted take new entries at once, without a VACUUM, unless somebody
# has an old snapshot.
#
foreach my $held (0, 1)
{
	my $table = "reuse_$held";

	# Checks of consistency would write hundreds of megabytes of WAL.
	$primary->safe_psql('postgres', qq{
		SET wal_consistency_checking = '';
		CREATE TABLE $table (k int) WITH (autovacuum_enabled = off);
		INSERT INTO $table SELECT i FROM generate_series(1, 50000) i;
		CREATE INDEX ${table}_k ON $table USING bunbtree (k);
		DELETE FROM $table WHERE hashint4(k) % 10 <> 0;
		VACUUM $table});
	my $size = $primary->safe_psql('postgres', qq{SELECT pg_relation_size('${table}_k')});
	my $holder = $primary->background_psql('postgres');
	$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1') if $held;
	# The pages of the last slice need one more transaction.
	$primary->safe_psql('postgres', qq{
		SET wal_consistency_checking = '';
		CALL bunbtree_compact('${table}_k', max_pages => 20, pause => '0');
		INSERT INTO $table SELECT i FROM generate_series(100001, 120000) i});
	if (!$held)
	{
		# Standbys get what is flushed.  If that is not the commit of a slice, too, they
		# keep the lock.  (Something else may have been written after it.)
		my ($flushed, $written) = split /\|/, $primary->safe_psql('postgres', qq{
			SET wal_consistency_checking = '';
			UPDATE $table SET k = k + 1000000 WHERE k % 3 = 0;
			VACUUM $table;
			CALL bunbtree_compact('${table}_k', pause => '0');
			SELECT pg_current_wal_flush_lsn(), pg_current_wal_insert_lsn()});
		my ($rest, $stderr) = ('', '');

		$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
		($rest, $stderr) = run_command([ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal',
				'-s', $flushed, '-e', $written ]) if $flushed ne $written;
		unlike($rest, qr/desc: (COMMIT|LOCK) /, 'the last slice is flushed to its end');
	}
	my $grown = $primary->safe_psql('postgres', qq{SELECT pg_relation_size('${table}_k')}) - $size;
	if ($held)
	{
		cmp_ok($grown, '>', 0, 'deleted pages are not used while a snapshot is older');
	}
	else
	{
		is($grown, 0, 'deleted pages are used at once');
	}
	is($primary->safe_psql('postgres', qq{SELECT bunbtree_check('${table}_k', true, true)}), '',
		'and the index is intact');
	# Its snapshot is gone before anything else begins.
	$holder->query_safe('ROLLBACK') if $held;
	$holder->quit;
	if ($held)
	{
		# VACUUM would not look at an index where it has nothing to delete.
		$size += $grown;
		$primary->safe_psql('postgres', qq{
			SET wal_consistency_checking = '';
			VACUUM $table;
			INSERT INTO $table SELECT i FROM generate_series(200001, 210000) i});
		is($primary->safe_psql('postgres', qq{SELECT pg_relation_size('${table}_k')}), $size,
			'afterwards, VACUUM finds them');
	}
}

#
# A crash after compaction.  Without full-page images, replay relies on those that
# are in its records.
#
$primary->stop('immediate');
$primary->start;
check($primary, 't_k', 'crash after compaction');
check($primary, 't_btree', 'crash after compaction, btree');

#
# A standby, which replays it with consistency checks.  Recovery refuses a call.
#
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($standby->safe_psql('postgres', q{
		SET enable_seqscan = off;
		SELECT count(*), sum(k) FROM (SELECT k FROM t WHERE k > 0 ORDER BY k) s;
		SELECT bunbtree_check('t_k');
		SELECT bt_index_check('t_btree')}),
	"20000|200010000\n\n", 'the standby has all rows');
my ($status, $out, $err) = $standby->psql('postgres',
	q{CALL bunbtree_compact('t_k')}, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
like($err, qr/ERROR:  25006/, 'refused in recovery');

#
# Locks in its way: it does not queue, does not use up transaction IDs, and says
# how often it was refused.  A prepared transaction is the most patient holder.
#
$primary->safe_psql('postgres', q{
	BEGIN;
	LOCK TABLE t IN ACCESS SHARE MODE;
	SELECT count(*) FROM t WHERE k = 1;
	INSERT INTO t VALUES (20001);
	PREPARE TRANSACTION 'holder'});
my $xid = $primary->safe_psql('postgres', 'SELECT pg_current_xact_id()');
($status, $out, $err) = $primary->psql('postgres',
	q{CALL bunbtree_compact('t_locks', max_runtime => '500 ms')});
is($status, 0, 'refused by locks is no error');
like($err, qr/"t_locks": (\d+) leaf pages before, \1 after.*Slices: 0, refused: [1-9].*max_runtime/s,
	'refusals are counted');
($status, $out, $err) = $primary->psql('postgres', q{CALL bunbtree_compact('t_dense')});
like($err, qr/"t_dense": (\d+) leaf pages before, \1 after.*Slices: 0, refused: 0/s,
	'where there is no work, no lock is tried');
is($primary->safe_psql('postgres', 'SELECT pg_current_xact_id()'), $xid + 1,
	'all that costs no transaction IDs');
$primary->safe_psql('postgres', q{ROLLBACK PREPARED 'holder'});
$primary->safe_psql('postgres', q{CALL bunbtree_compact('t_locks', pause => '0')});
check($primary, 't_locks', 'compacted when the locks are gone');

#
# Slices do not wait for a standby's replay, whatever the cluster's setting.
#
$primary->append_conf('postgresql.conf', q{
synchronous_standby_names = '*'
synchronous_commit = remote_apply
});
$primary->reload;
$primary->poll_query_until('postgres',
	q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'})
  or die 'no synchronous standby';
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$standby->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'})
  or die 'replay is not paused';
my $timed_out;
($status, $out, $err) = $primary->psql('postgres',
	q{CALL bunbtree_compact('t_sync', pause => '0')},
	timeout => 60, timed_out => \$timed_out);
ok(!$timed_out, 'no wait for a standby');
like($err, qr/"t_sync": $before leaf pages before, $after after/, 'all slices are done');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$primary->append_conf('postgresql.conf', q{
synchronous_standby_names = ''
synchronous_commit = on
});
$primary->reload;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($standby->safe_psql('postgres', "SELECT bunbtree_check('t_sync'); $leaves('t_sync')"),
	"\n$after", 'the standby follows');

#
# Progress, seen from another session, and cancellation.
#
my ($stdout, $errors) = ('', '');
my $run = IPC::Run::start(
	[ 'psql', '-XAtq', '-d', $primary->connstr('postgres'),
		'-c', q{CALL bunbtree_compact('t_cancel', max_pages => 31, pause => '1 hour')} ],
	'>', \$stdout, '2>', \$errors);
$primary->poll_query_until('postgres', qq{
	SELECT count(*) = 1 FROM bunbtree_progress_compact
	WHERE index = 't_cancel'::regclass AND leaf_pages = $before
		AND leaf_pages_removed > 20 AND leaf_pages_scanned BETWEEN 25 AND 31
		AND slices = 1 AND slices_refused = 0 AND time_held > 0})
  or do { $primary->stop('immediate'); die 'no progress is shown' };
$primary->safe_psql('postgres', 'CREATE ROLE other');
is($primary->safe_psql('postgres', q{
		SET ROLE other;
		SELECT pid > 0, index IS NULL, slices IS NULL FROM bunbtree_progress_compact}),
	't|t|t', 'others see that it runs, and no more');
$primary->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM bunbtree_progress_compact');
$run->finish;
like($errors, qr/canceling statement due to user request/, 'it can be cancelled');
is($primary->safe_psql('postgres', 'SELECT count(*) FROM bunbtree_progress_compact'),
	0, 'progress ends with it');
check($primary, 't_cancel', 'the index is intact');

#
# What changes between slices.
#
sub start_compaction
{
	my ($role, $call) = @_;
	my $job = { out => '', err => '' };

	$job->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $primary->connstr('postgres'), '-c', "SET ROLE $role", '-c', "CALL $call" ],
		'>', \$job->{out}, '2>', \$job->{err});
	$primary->poll_query_until('postgres', 'SELECT max(slices) > 0 FROM bunbtree_progress_compact')
	  or do { $primary->stop('immediate'); die 'no progress is shown' };
	return $job;
}

# The index is rebuilt: no page is what it was.
my $job = start_compaction('NONE', q{bunbtree_compact('t_again', max_pages => 80, pause => '1 s')});
$primary->safe_psql('postgres', 'REINDEX INDEX t_again');
$job->{run}->finish;
like($job->{err}, qr/"t_again": $before leaf pages before, $after after/, 'REINDEX: it begins anew');
check($primary, 't_again', 'the index is intact');

# The table is given to somebody else.
$primary->safe_psql('postgres', 'ALTER TABLE t OWNER TO other');
$job = start_compaction('other', q{bunbtree_compact('t_owner', max_pages => 20, pause => '1 s')});
$primary->safe_psql('postgres', 'ALTER TABLE t OWNER TO CURRENT_USER');
$job->{run}->finish;
like($job->{err}, qr/ERROR:  must be owner of index t_owner/, 'whoever owns it no longer may not go on');
cmp_ok($primary->safe_psql('postgres', "$leaves('t_owner')"), '>', $after * 2, 'and does not');
check($primary, 't_owner', 'the index is intact');

done_testing();
