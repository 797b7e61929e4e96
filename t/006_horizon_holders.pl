
# The view bunbtree_horizon_holders says who keeps dead rows alive.  Each kind of
# holder is made, and what the view says is held against what VACUUM can remove.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 'logical');
$primary->append_conf('postgresql.conf', q{
autovacuum = off
max_prepared_transactions = 5
});
$primary->start;
for my $database ('postgres', 'elsewhere')
{
	$primary->safe_psql('postgres', "CREATE DATABASE $database") if $database ne 'postgres';
	$primary->safe_psql($database, q{
		CREATE EXTENSION bunbtree;
		CREATE TABLE t (a int) WITH (autovacuum_enabled = off);
		CREATE TABLE u (a int) WITH (autovacuum_enabled = off)});
}
my $major = int($primary->safe_psql('postgres', 'SHOW server_version_num') / 10000);

sub holders
{
	my ($columns, $where, %options) = @_;

	return ($options{node} // $primary)->safe_psql($options{database} // 'postgres',
		"SELECT $columns FROM bunbtree_horizon_holders WHERE " . ($where // 'true'));
}

# Uses up transaction IDs.
sub burn
{
	my ($count) = @_;

	$primary->safe_psql('postgres', qq{
		DO \$\$
		BEGIN
			FOR i IN 1 .. $count LOOP
				PERFORM pg_current_xact_id();
				COMMIT;
			END LOOP;
		END \$\$});
	return;
}

# What VACUUM can and cannot remove: "1 removed, 0 kept".
sub vacuum
{
	my ($table) = @_;
	my (undef, undef, $stderr) = $primary->psql('postgres', "VACUUM (VERBOSE) $table");

	$stderr =~ /(\d+) removed, \d+ remain, (\d+) are dead but not yet removable/
	  or die "unexpected output of VACUUM: $stderr";
	return "$1 removed, $2 kept";
}

# A row dies now, and VACUUM must not remove it.
sub keeps
{
	my ($what) = @_;

	$primary->safe_psql('postgres', $_) for 'INSERT INTO t VALUES (1)', 'DELETE FROM t';
	is(vacuum('t'), '0 removed, 1 kept', "$what: keeps a dead row");
	return;
}

# The row goes, and nobody is listed (for whom "where" is true).
sub lets_go
{
	my ($what, $where) = @_;

	is(vacuum('t'), '1 removed, 0 kept', "$what: the dead row goes");
	is(holders('kind, name', $where), '', "$what: not listed");
	return;
}

sub session
{
	my ($name, $node, $database) = @_;
	my $session = $node->background_psql($database, on_error_stop => 0);

	$session->query_safe("SET application_name = '$name'");
	return $session;
}

is(holders('kind, name'), '', 'nobody to begin with');

#
# Sessions
#
my $reader = session('reader', $primary, 'postgres');
my $writer = session('writer', $primary, 'postgres');
is(holders('kind, name'), '', 'idle sessions are not listed');

$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t');
keeps('snapshot');
is( holders(q{kind, name, usename = current_user, state, held_by, affects, xact_age >= query_age AND query_age > '0'}),
	'backend|reader|t|idle in transaction|backend_xmin|tables|t',
	'snapshot: listed');
is( $primary->safe_psql('postgres', q{
		SELECT h.age > 0 AND h.age = age(h.xid)
		FROM bunbtree_horizon_holders h JOIN pg_stat_activity a USING (pid)
		WHERE h.xid = a.backend_xmin AND a.backend_xid IS NULL}),
	't', 'snapshot: transaction ID and age');
$primary->safe_psql('elsewhere', $_) for 'INSERT INTO t VALUES (1)', 'DELETE FROM t';
is($primary->safe_psql('postgres', q{
		CREATE TEMP TABLE mine AS SELECT 1 AS a;
		DELETE FROM mine;
		VACUUM mine;
		SELECT pg_relation_size('mine')}),
	'0', 'snapshot: does not keep rows of temporary tables');
is(holders('kind, name', undef, database => 'elsewhere'), '',
	'snapshot: not listed in another database');
$reader->query_safe('COMMIT');
lets_go('snapshot');

$writer->query_safe('BEGIN; INSERT INTO u VALUES (1)');
keeps('transaction ID');
is(holders('kind, name, state, held_by'), 'backend|writer|idle in transaction|backend_xid',
	'transaction ID: listed');
is( $primary->safe_psql('postgres', q{
		SELECT count(*) FROM bunbtree_horizon_holders h JOIN pg_stat_activity a USING (pid)
		WHERE h.xid = a.backend_xid AND a.backend_xmin IS NULL}),
	'1', 'transaction ID: there is no snapshot');

# What ordinary users see of it.
$primary->safe_psql('postgres', 'CREATE ROLE ordinary');
my $as_ordinary = q{
	SET ROLE ordinary;
	SELECT kind, name, pid IS NOT NULL, usename IS NOT NULL, state, xact_age IS NOT NULL,
		   query_age IS NOT NULL, held_by, age > 0
	FROM bunbtree_horizon_holders};
is($primary->safe_psql('postgres', $as_ordinary),
	'backend|writer|t|t||f|f|backend_xid|t', 'ordinary user: no state, no times');
is($primary->safe_psql('postgres', "GRANT pg_read_all_stats TO ordinary; $as_ordinary"),
	'backend|writer|t|t|idle in transaction|t|t|backend_xid|t', 'with pg_read_all_stats: everything');
$writer->query_safe('ROLLBACK');
lets_go('transaction ID');

# Both, the snapshot being older.
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t');
burn(1);
$reader->query_safe('INSERT INTO u VALUES (1)');
keeps('snapshot and transaction ID');
is(holders('name, held_by'), 'reader|backend_xmin', 'snapshot and transaction ID: the older is listed');
$reader->query_safe('COMMIT');
lets_go('snapshot and transaction ID');

# The session that asks.
my $own = q{SELECT count(*) FROM bunbtree_horizon_holders WHERE pid = pg_backend_pid()};
is($reader->query_safe($own), '0', 'own session: not listed for the query alone');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t');
is($reader->query_safe($own), '1', 'own session: listed in a transaction that began before');
$reader->query_safe('COMMIT');

# Another database's.
my $foreigner = session('foreigner', $primary, 'elsewhere');
$foreigner->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO u VALUES (1)');
$primary->safe_psql('elsewhere',
	q{BEGIN; INSERT INTO u VALUES (1); PREPARE TRANSACTION 'foreign'});
$primary->safe_psql('postgres', $_) for 'INSERT INTO t VALUES (1)', 'DELETE FROM t';
lets_go('another database');
is(holders('name', undef, database => 'elsewhere'), "foreigner\nforeign",
	'another database: listed there');
$primary->safe_psql('elsewhere', q{ROLLBACK PREPARED 'foreign'});
$foreigner->query_safe('ROLLBACK');
$foreigner->quit;

# VACUUM has a snapshot that does not count.
my $vacuumer = session('vacuumer', $primary, 'postgres');
$vacuumer->query_safe(q{
	CREATE TABLE large WITH (autovacuum_enabled = off) AS SELECT i AS a FROM generate_series(1, 100000) i;
	DELETE FROM large;
	SET vacuum_cost_delay = 100;
	SET vacuum_cost_limit = 1});
$vacuumer->query_until(qr/begins/, "\\echo begins\nVACUUM large;\n");
$primary->poll_query_until('postgres', q{
	SELECT count(*) = 1 FROM pg_stat_progress_vacuum JOIN pg_stat_activity USING (pid)
	WHERE backend_xmin IS NOT NULL}) or die 'VACUUM has not begun';
$primary->safe_psql('postgres', $_) for 'INSERT INTO t VALUES (1)', 'DELETE FROM t';
lets_go('VACUUM');
is( $primary->safe_psql('postgres', q{
		SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum JOIN pg_stat_activity USING (pid)
		WHERE backend_xmin IS NOT NULL}),
	't', 'VACUUM: was there all the time');
$vacuumer->quit;

#
# Prepared transactions
#
$primary->safe_psql('postgres',
	q{BEGIN; INSERT INTO u VALUES (1); PREPARE TRANSACTION 'forgotten'});
keeps('prepared transaction');
is( holders(q{kind, name, pid, usename = current_user, state, query_age, held_by, affects, xact_age > '0'}),
	'prepared transaction|forgotten||t|||transaction|tables|t', 'prepared transaction: listed');
$primary->safe_psql('postgres', q{COMMIT PREPARED 'forgotten'});
lets_go('prepared transaction');

#
# Several
#
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t');
burn(10);
$primary->safe_psql('postgres',
	q{BEGIN; INSERT INTO u VALUES (1); PREPARE TRANSACTION 'forgotten'});
burn(10);
$writer->query_safe('BEGIN; INSERT INTO u VALUES (1)');
burn(10);
keeps('several');
is(holders('name'), "reader\nforgotten\nwriter", 'several: oldest first');
my @ages = split /\n/, holders('age');
cmp_ok($ages[0] - $ages[1], '>=', 10, 'several: ages');
cmp_ok($ages[1] - $ages[2], '>=', 10, 'several: ages');
cmp_ok($ages[2], '>=', 10, 'several: ages');
$reader->query_safe('COMMIT');
is(vacuum('t'), '0 removed, 1 kept', 'several: without the oldest');
$primary->safe_psql('postgres', q{ROLLBACK PREPARED 'forgotten'});
is(vacuum('t'), '0 removed, 1 kept', 'several: without the second');
$writer->query_safe('COMMIT');
lets_go('several');

#
# vacuum_defer_cleanup_age
#
if ($major < 16)
{
	$primary->safe_psql('postgres', 'ALTER SYSTEM SET vacuum_defer_cleanup_age = 50');
	$primary->reload;
	$primary->poll_query_until('postgres',
		'SELECT setting = $$50$$ FROM pg_settings WHERE name = $$vacuum_defer_cleanup_age$$');
	keeps('vacuum_defer_cleanup_age');
	is(holders('kind, name, pid, held_by, affects, xid, age'),
		'vacuum_defer_cleanup_age|||vacuum_defer_cleanup_age|tables||50',
		'vacuum_defer_cleanup_age: listed');

	# It comes on top of what the oldest session holds.
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t');
	burn(60);
	is(vacuum('t'), '0 removed, 1 kept', 'vacuum_defer_cleanup_age: and a snapshot');
	is(holders('kind'), "vacuum_defer_cleanup_age\nbackend",
		'vacuum_defer_cleanup_age: before the snapshot');
	@ages = split /\n/, holders('age');
	is($ages[0] - $ages[1], 50, 'vacuum_defer_cleanup_age: by so much');
	$reader->query_safe('COMMIT');
	lets_go('vacuum_defer_cleanup_age', 'age > 50');

	$primary->safe_psql('postgres', 'ALTER SYSTEM RESET vacuum_defer_cleanup_age');
	$primary->reload;
	$primary->poll_query_until('postgres',
		'SELECT setting = $$0$$ FROM pg_settings WHERE name = $$vacuum_defer_cleanup_age$$');
	is(holders('kind, name'), '', 'vacuum_defer_cleanup_age: not any more');
}

#
# A logical slot keeps rows of catalogs only
#
$primary->safe_psql('postgres',
	q{SELECT pg_create_logical_replication_slot('decoder', 'pgoutput')});
$primary->safe_psql('postgres', $_)
  for 'INSERT INTO t VALUES (1)', 'DELETE FROM t', 'CREATE TABLE v ()', 'DROP TABLE v';
is(holders('kind, name, pid, state, xact_age, held_by, affects, age > 0'),
	'replication slot|decoder||inactive||catalog_xmin|catalogs|t', 'logical slot: listed');
lets_go('logical slot', q{affects = 'tables'});
unlike(vacuum('pg_class'), qr/ 0 kept/, 'logical slot: keeps rows of a catalog');
$primary->safe_psql('postgres', q{SELECT pg_drop_replication_slot('decoder')});
like(vacuum('pg_class'), qr/ 0 kept/, 'logical slot: dropped, the rows of the catalog go');
is(holders('kind, name'), '', 'logical slot: not listed');

#
# A standby's feedback, by the walsender
#
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
hot_standby_feedback = on
wal_receiver_status_interval = 1
max_standby_streaming_delay = -1
});

# Starts the standby, and in the other database there a transaction that keeps a
# snapshot.  When the primary has heard of it, "where" is listed with an age.
sub start_standby
{
	my ($where) = @_;

	$standby->start;
	$primary->safe_psql('postgres', 'INSERT INTO u VALUES (1)');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	my $session = session('standby reader', $standby, 'elsewhere');
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t');
	$primary->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM bunbtree_horizon_holders WHERE $where")
	  or die 'no feedback of the standby';
	burn(10);
	return $session;
}

# Ends that transaction, and waits for the primary to hear of it.
sub end_standby_session
{
	my ($session) = @_;

	$session->query_safe('COMMIT');
	$session->quit;
	$primary->poll_query_until('postgres', 'SELECT max(age) = 0 FROM bunbtree_horizon_holders')
	  or die 'no feedback of the standby';
	return;
}

my $standby_reader = start_standby(q{kind = 'standby'});
keeps('standby');
is(holders('kind, name, state, held_by, affects, age > 10'),
	'standby|standby|active|backend_xmin|tables|t', 'standby: listed');
is( $primary->safe_psql('postgres',
		'SELECT count(*) FROM bunbtree_horizon_holders JOIN pg_stat_replication USING (pid)'),
	'1', 'standby: as the walsender');
is($primary->safe_psql('postgres', $as_ordinary =~ s/SET ROLE/REVOKE pg_read_all_stats FROM ordinary; SET ROLE/r),
	'standby|standby|t|t||f|f|backend_xmin|t', 'standby: ordinary user');

# The view on the standby itself.  There, all databases count.
$primary->safe_psql('postgres',
	q{BEGIN; INSERT INTO u VALUES (1); PREPARE TRANSACTION 'on the primary'});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is(holders('kind, name, state, held_by, age > 10', undef, node => $standby),
	'backend|standby reader|idle in transaction|backend_xmin|t',
	'on the standby: its session is listed');
$primary->safe_psql('postgres', q{ROLLBACK PREPARED 'on the primary'});

end_standby_session($standby_reader);
lets_go('standby', 'age > 10');
is(holders('kind'), 'standby', 'standby: listed as long as it gives feedback');
$standby->stop;
is(holders('kind, name'), '', 'standby: stopped, not listed');

#
# The same, by a slot, which stays when the standby is gone
#
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('for_standby', true)});
is(holders('kind, name'), '', 'slot: not listed before there is feedback');
$standby->append_conf('postgresql.conf', q{primary_slot_name = 'for_standby'});
$standby_reader = start_standby(q{kind = 'replication slot'});
keeps('slot');
is(holders('kind, name, usename, state, held_by, affects, age > 10'),
	'replication slot|for_standby||active|xmin|tables|t', 'slot: listed');
is( $primary->safe_psql('postgres',
		'SELECT count(*) FROM bunbtree_horizon_holders JOIN pg_stat_replication USING (pid)'),
	'1', 'slot: with the walsender');
end_standby_session($standby_reader);
lets_go('slot', 'age > 10');

$standby->stop;
keeps('slot of a standby that is gone');
is(holders('kind, name, pid, state, held_by, affects, age > 0'),
	'replication slot|for_standby||inactive|xmin|tables|t', 'slot of a standby that is gone: listed');

# Invalidated, it is there but does not count.
$primary->safe_psql('postgres', q{ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'});
$primary->reload;
$primary->poll_query_until('postgres',
	'SELECT setting = $$1$$ FROM pg_settings WHERE name = $$max_slot_wal_keep_size$$');
for (1 .. 2)
{
	$primary->safe_psql('postgres', 'INSERT INTO u VALUES (1); SELECT pg_switch_wal()');
}
$primary->safe_psql('postgres', 'CHECKPOINT');
is($primary->safe_psql('postgres', 'SELECT wal_status, xmin IS NOT NULL FROM pg_replication_slots'),
	'lost|t', 'invalidated slot: is there');
lets_go('invalidated slot');

$primary->safe_psql('postgres', q{SELECT pg_drop_replication_slot('for_standby')});
$reader->quit;
$writer->quit;
$primary->stop;
done_testing();
