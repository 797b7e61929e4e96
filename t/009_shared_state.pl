
# What is learned and counted belongs to the index: every kind of process finds
# it, nothing of it can make an insertion fail.

use strict;
use warnings;

use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('main');

# Once as most people will have it, once with shared_preload_libraries.
sub start_with
{
	my (%settings) = @_;

	$node->adjust_conf('postgresql.conf', $_, $settings{$_}) for keys %settings;
	$node->restart;
	return;
}

sub in_log
{
	my ($pattern, $from) = @_;
	my $log = slurp_file($node->logfile, $from);
	my @found = $log =~ /$pattern/g;

	return scalar(@found);
}

sub counter
{
	my ($counter, $index) = @_;

	return $node->safe_psql('postgres',
		"SELECT $counter FROM pg_stat_bunbtree WHERE indexrelname = '$index'");
}

# Runs commands in as many sessions at once; all have to succeed.
sub at_once
{
	my (@commands) = @_;
	my @runs;

	foreach my $sql (@commands)
	{
		push @runs, IPC::Run::start(
			[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
				'-c', $sql ],
			'<', \undef, '>', '/dev/null');
	}
	my $failed = grep { !IPC::Run::finish($_) } @runs;
	return $failed;
}

# After a crash.  A query would have to expect to fail.
sub wait_until_ready
{
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if system('pg_isready', '-q', '-d', $node->connstr('postgres')) == 0;
		usleep(100_000);
	}
	die 'the server did not restart';
}

$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', q{
autovacuum = off
restart_after_crash = on
dynamic_shared_memory_type = mmap
bunbtree.max_indexes = 2000
shared_preload_libraries = ''
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (id int, k int) WITH (autovacuum_enabled = off);
	CREATE INDEX t_k ON t USING bunbtree (k);});

foreach my $preload ('', 'bunbtree')
{
	my $how = $preload ? 'preloaded' : 'not preloaded';

	start_with(shared_preload_libraries => "'$preload'");
	is($node->safe_psql('postgres', 'SHOW shared_preload_libraries'), $preload, $how);

	# First use, by many at once: nothing is counted twice, nothing gets lost.
	$node->safe_psql('postgres', 'TRUNCATE t');
	is(at_once(('INSERT INTO t SELECT i, i FROM generate_series(1, 100) i') x 20),
		0, 'concurrent first use');
	is(counter('passes + declined', 't_k'), 2000,
		'every insertion of 20 sessions is counted, and survives the session');
	is($node->safe_psql('postgres', q{
			SELECT count(*) FROM bunbtree_counters()
			WHERE index = 't_k'::regclass}), 3, 'under one index');

	# An error, and a killed backend.
	$node->psql('postgres', q{
		INSERT INTO t SELECT i, i FROM generate_series(1, 50) i;
		INSERT INTO t SELECT i, 1 / (51 - i) FROM generate_series(1, 51) i;});
	is(counter('passes + declined', 't_k'), 2100, 'insertions that are rolled back count, too');
	my $victim = $node->background_psql('postgres', on_error_die => 1);
	my $pid = $victim->query_safe('SELECT pg_backend_pid()');
	$victim->query_safe('INSERT INTO t VALUES (1, 1)');
	my $log = -s $node->logfile;
	kill 'KILL', $pid;
	$victim->{run}->kill_kill;
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
	wait_until_ready();
	is(counter('passes + declined', 't_k'), 0, 'a crash clears the counters');
	$node->safe_psql('postgres', 'INSERT INTO t VALUES (1, 1)');
	is(counter('passes + declined', 't_k'), 1, 'and counting begins anew');
}

# A background worker: logical replication, within the server.
start_with(shared_preload_libraries => "''");
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
	CREATE TABLE t (id int PRIMARY KEY, k int);
	CREATE PUBLICATION p FOR TABLE t;
	SELECT pg_create_logical_replication_slot('s', 'pgoutput');});
$node->safe_psql('postgres',
	'TRUNCATE t; CREATE SUBSCRIPTION s CONNECTION $$' . $node->connstr('source') . '$$'
	  . ' PUBLICATION p WITH (create_slot = false, slot_name = s)');
$node->poll_query_until('postgres',
	q{SELECT every(srsubstate IN ('r', 's')) FROM pg_subscription_rel});
$node->safe_psql('source', 'INSERT INTO t SELECT i, i FROM generate_series(1, 77) i');
$node->poll_query_until('postgres', 'SELECT count(*) = 77 FROM t');
is(counter('passes + declined', 't_k'), 77, "an apply worker's insertions are counted");
$node->safe_psql('postgres', 'DROP SUBSCRIPTION s');

# No room.  One line in the log, however many sessions and indexes there are; a
# session that has no slot for an index still shows what it knows.
start_with('bunbtree.max_indexes' => 3);
my $log = -s $node->logfile;
$node->safe_psql('postgres', q{CREATE TABLE many (} . join(', ', map { "c$_ int" } 1 .. 6) . ')');
$node->safe_psql('postgres', "CREATE INDEX many_c$_ ON many USING bunbtree (c$_)") for 1 .. 6;
is(at_once(('INSERT INTO many SELECT i, i, i, i, i, i FROM generate_series(1, 100) i') x 4),
	0, 'more indexes than room');
is($node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_stat_bunbtree WHERE relname = 'many' AND declined = 400}), 3,
	'those for which there is room have counters');
is($node->safe_psql('postgres', q{
		INSERT INTO many VALUES (1, 1, 1, 1, 1, 1);
		SELECT string_agg(declined::text, ' ' ORDER BY declined)
		FROM pg_stat_bunbtree WHERE relname = 'many'}), '1 1 1 401 401 401',
	'the others have them within a session');
is(in_log(qr/LOG:  more bunbtree indexes are in use than have room/, $log), 1,
	'one line in the log');

# Room comes back from indexes and databases that are gone.
start_with('bunbtree.max_indexes' => 3);
$log = -s $node->logfile;
$node->safe_psql('postgres', q{
	DROP TABLE many;
	DO $$
	BEGIN
		FOR i IN 1 .. 50
		LOOP
			CREATE TEMPORARY TABLE short (k int);
			CREATE INDEX ON short USING bunbtree (k);
			INSERT INTO short VALUES (i);
			DROP TABLE short;
			COMMIT;
		END LOOP;
	END
	$$;
	SELECT count(*) FROM bunbtree_counters()});
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{
	CREATE EXTENSION bunbtree;
	CREATE TABLE t (a int, b int, c int);
	CREATE INDEX ON t USING bunbtree (a);
	INSERT INTO t VALUES (1, 1, 1);});
$node->safe_psql('postgres', 'DROP DATABASE other');
$node->safe_psql('postgres', q{
	CREATE TABLE t2 (k int);
	CREATE INDEX t2_k ON t2 USING bunbtree (k);
	CREATE TABLE t3 (k int);
	CREATE INDEX t3_k ON t3 USING bunbtree (k);
	INSERT INTO t VALUES (1, 1);
	INSERT INTO t2 VALUES (1);
	INSERT INTO t3 VALUES (1);});
is($node->safe_psql('postgres', q{
		SELECT string_agg(declined::text, ' ') FROM pg_stat_bunbtree
		WHERE relname IN ('t', 't2', 't3')}), '1 1 1',
	'slots of dropped indexes and databases are used again');
is(in_log(qr/more bunbtree indexes are in use/, $log), 0, 'there was room all the time');

# Shared memory cannot be had at all.
start_with('bunbtree.max_indexes' => 100);
$log = -s $node->logfile;
chmod 0500, $node->data_dir . '/pg_dynshmem' or die "chmod: $!";
is($node->safe_psql('postgres', q{
		INSERT INTO t VALUES (2, 2);
		INSERT INTO t VALUES (2, 2);
		INSERT INTO t2 VALUES (2);
		SELECT declined FROM pg_stat_bunbtree WHERE indexrelname = 't_k'}), 2,
	'without shared memory, insertions succeed and are counted in the session');
is(in_log(qr/LOG:  bunbtree indexes have no shared state in this session/, $log), 1,
	'one line in the log');
is(in_log(qr/ERROR|WARNING/, $log), 0, 'and no complaint');
chmod 0700, $node->data_dir . '/pg_dynshmem' or die "chmod: $!";
$node->safe_psql('postgres', 'INSERT INTO t VALUES (2, 2)');
is(counter('declined', 't_k'), 1, 'sessions that come later have it');

# Two builds of the library with different layouts, as there are while an upgrade
# is installed and old sessions go on.  The other build is this one under another
# name of its shared state.
my $installed = $node->safe_psql('postgres', q{
	SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'}) . '/bunbtree.so';
my $library = PostgreSQL::Test::Utils::tempdir() . '/bunbtree.so';
copy($installed, $library) or die "$library: $!";
chmod 0755, $library or die "chmod: $!";
$node->safe_psql('postgres', qq{
	UPDATE pg_proc SET probin = '$library' WHERE probin = '\$libdir/bunbtree'});
start_with('bunbtree.max_indexes' => 10);
$log = -s $node->logfile;
my $old = $node->background_psql('postgres', on_error_die => 1);
$old->query_safe('INSERT INTO t VALUES (3, 3)');

my $image = slurp_file($library);
ok(($image =~ s/bunbtree state \d/bunbtree state x/g), 'the library names its layout');
open my $fh, '>:raw', "$library.new" or die "$library.new: $!";
print $fh $image;
close $fh or die "close: $!";
chmod 0755, "$library.new" or die "chmod: $!";
rename "$library.new", $library or die "rename: $!";
is(at_once(('INSERT INTO t SELECT i, i FROM generate_series(1, 10) i') x 3), 0,
	'sessions with a new build');
$old->query_safe('INSERT INTO t VALUES (3, 3)');
is($old->query_safe(q{SELECT declined FROM pg_stat_bunbtree WHERE indexrelname = 't_k'}), 2,
	'sessions with the old one have their state');
$old->quit;
is(counter('declined', 't_k'), 30, 'those with the new one theirs');
is($node->safe_psql('postgres', q{SELECT bunbtree_check('t_k', true)}), '', 'amcheck passes');
is(in_log(qr/ERROR|WARNING|PANIC|terminated by signal/, $log), 0, 'and no complaint');

$node->stop;
done_testing();
