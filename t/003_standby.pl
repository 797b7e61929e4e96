
# A physical standby replays what passes do without the library, and gets the
# same index.  The conflict horizon of a pass's deletions is right: a standby
# query that can still see the rows is in the way of replay, a newer one is not.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
autovacuum = off
wal_consistency_checking = 'btree'
wal_keep_size = 2GB
});
$primary->start;
$primary->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (k int, v text) WITH (autovacuum_enabled = off);
	CREATE INDEX t_k ON t USING bunbtree (k);
	INSERT INTO t SELECT i, 'first' FROM generate_series(1, 2000) i;
});

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
max_standby_streaming_delay = -1
hot_standby_feedback = off
});
$standby->start;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

# One round: all rows go and come back, one transaction each.  Returns the
# entries that passes have deleted in it.
my $round = 0;
sub churn
{
	my ($rounds) = @_;
	my $sql = '';

	for (1 .. $rounds)
	{
		$round++;
		$sql .= "DELETE FROM t;\n"
		  . "INSERT INTO t SELECT i, 'round $round' FROM generate_series(1, 2000) i ORDER BY hashint4(i);\n";
	}
	return $primary->safe_psql('postgres',
		$sql . "SELECT entries_deleted FROM pg_stat_bunbtree WHERE indexrelid = 't_k'::regclass");
}

sub processes_with_library
{
	my ($node) = @_;
	my $maps = 0;
	my $pid = $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'");

	open my $fh, '<', "/proc/$pid/maps" or return 'unknown';
	while (<$fh>)
	{
		$maps++ if m{/bunbtree\.so};
	}
	close $fh;
	return $maps;
}

cmp_ok(churn(10), '>', 2000, 'passes delete entries');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is(processes_with_library($standby), 0, 'the startup process has not loaded the library');

my $rows = q{SET enable_seqscan = off; SELECT count(*), min(v), max(v) FROM t WHERE k > 0};
is($standby->safe_psql('postgres', $rows), $primary->safe_psql('postgres', $rows),
	'the standby finds the same rows through the index');
is($standby->safe_psql('postgres', q{SELECT bunbtree_check('t_k', true)}), '',
	'amcheck passes on the standby');
is( $standby->safe_psql('postgres', q{SELECT pg_relation_size('t_k')}),
	$primary->safe_psql('postgres', q{SELECT pg_relation_size('t_k')}),
	'the index has the same size on both');

# A query on the standby that sees the rows as they are now.
my $old = $standby->background_psql('postgres', on_error_die => 1);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $old->query_safe('SELECT count(*), min(v), max(v) FROM t');

# The primary does not know of it, and deletes their entries.  Replay of that
# has to wait, as the setting says; the query keeps its rows.
cmp_ok(churn(10), '>', 2000, 'passes go on on the primary');
my $target = $primary->lsn('insert');
$standby->poll_query_until('postgres', q{
	SELECT wait_event_type = 'IPC' AND wait_event LIKE 'RecoveryConflict%'
	FROM pg_stat_activity WHERE backend_type = 'startup'})
  or die 'replay did not wait';
pass('replay waits for the older query');
is($old->query_safe('SELECT count(*), min(v), max(v) FROM t'), $seen,
	'the older query sees the rows that it saw');
$old->query_safe('COMMIT');
$old->quit;

# A query that is newer than all deletions is in nobody's way.
$primary->wait_for_catchup($standby, 'replay', $target);
pass('replay goes on after it');
my $new = $standby->background_psql('postgres', on_error_die => 1);
$new->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$seen = $new->query_safe('SELECT count(*), min(v), max(v) FROM t');
$primary->safe_psql('postgres', 'CREATE TABLE other ()');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($new->query_safe('SELECT count(*), min(v), max(v) FROM t'), $seen,
	'a newer query is undisturbed');
$new->quit;

# Promotion.
$standby->promote;
is($standby->safe_psql('postgres', q{
		DELETE FROM t WHERE k <= 1000;
		INSERT INTO t SELECT i, 'promoted' FROM generate_series(1, 1000) i;
		SELECT bunbtree_check('t_k', true, true)}),
	'', 'the promoted standby inserts, and amcheck passes');

$standby->stop;
$primary->stop;
done_testing();
