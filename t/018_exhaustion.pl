
# Nothing left: disk space in the middle of a split, connections, time.  Each time
# the statement fails, the next one works, and no row is lost or invented.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stress;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('main');

# A server whose files can have two megabytes stands for one whose disk is full: a
# relation cannot be extended ("File too large" is what the kernel says, instead of
# "No space left on device").  WAL has smaller files.
$node->init(extra => [ '--wal-segsize=1' ]);
$node->append_conf('postgresql.conf', q{
autovacuum = off
max_connections = 8
superuser_reserved_connections = 1
max_wal_senders = 0
min_wal_size = 2MB
max_wal_size = 20MB
});
system_or_bail('sh', '-c', 'ulimit -f 4096; exec "$@"', 'sh',
	'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, '-o',
	'--cluster-name=main', 'start');
$node->_update_pid(1);

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

my $full = qr/could not extend file.*File too large/;

# SQLSTATE of a statement, or 00000.
sub sqlstate
{
	my ($sql) = @_;
	my ($rc, $stdout, $stderr) =
	  $node->psql('postgres', "\\set VERBOSITY sqlstate\n$sql", on_error_stop => 1);

	return $stderr =~ /(?:ERROR|FATAL):  (\w{5})/ ? $1 : '00000';
}

# Rows by index and without, and amcheck's verdict.
sub verify
{
	my ($index, $what) = @_;

	is( query(qq{
			SET enable_seqscan = off; SET enable_bitmapscan = off;
			CREATE TEMPORARY TABLE by_index AS SELECT k FROM t WHERE pad(k) > '';
			SET enable_seqscan = on; SET enable_indexscan = off;
			SELECT count(*) FROM ((TABLE by_index EXCEPT ALL SELECT k FROM t)
				UNION ALL (SELECT k FROM t EXCEPT ALL TABLE by_index)) d;
			SELECT bunbtree_check('$index', true, true)}),
		"0\n", "$what: all rows are in the index, amcheck passes");
	return;
}

#
# Disk space
#
query(q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE FUNCTION pad(k int) RETURNS text LANGUAGE sql IMMUTABLE
		RETURN repeat(pg_catalog.md5(k::text), 5);
	CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
	CREATE INDEX t_pad ON t USING bunbtree (pad(k));
	INSERT INTO t SELECT generate_series(1, 2000)});
my $size = sub { query(q{SELECT pg_relation_size('t_pad')}) };
my $kept = 2000;
for my $try (1 .. 100)
{
	my $from = 10000 * $try;
	my ($rc, $stdout, $stderr) =
	  $node->psql('postgres', "INSERT INTO t SELECT generate_series($from, $from + 999)");

	if ($stderr eq '')
	{
		$kept += 1000;
		next;
	}
	like($stderr, $full, 'the index cannot grow any more');
	last;
}
cmp_ok($size->(), '<=', 2 * 1024 * 1024, 'no larger than allowed');
cmp_ok($size->(), '>', 1.9 * 1024 * 1024, 'but as large');
is(query('SELECT count(*) FROM t'), $kept, 'what was inserted before is there');
verify('t_pad', 'disk full');

# Again and again, in sessions that go on.
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $failed = 0;
for my $try (1 .. 5)
{
	$session->{stderr} = '';
	$session->query("INSERT INTO t SELECT generate_series(2000000, 2002999)");
	$failed++ if $session->{stderr} =~ $full;
}
is($failed, 5, 'it stays full');
$session->{stderr} = '';
is($session->query('SELECT count(*) FROM t'), $kept, 'the session goes on');
is($session->{stderr}, '', 'without an error');
$session->quit;
verify('t_pad', 'after more of it');

# What was aborted is garbage, and its place can be had without a new page.
my $deleted = query(q{SELECT entries_deleted FROM pg_stat_bunbtree WHERE indexrelname = 't_pad'});
query(q{DELETE FROM t WHERE k >= 10000; INSERT INTO t SELECT generate_series(10000, 10999)});
cmp_ok(query(q{SELECT entries_deleted FROM pg_stat_bunbtree WHERE indexrelname = 't_pad'}),
	'>', $deleted, 'passes make room on a full disk');
verify('t_pad', 'after rows were exchanged');

# A crash with a full disk.
isnt(sqlstate('INSERT INTO t SELECT generate_series(3000000, 3019999)'), '00000', 'full again');
$node->stop('immediate');
$node->start;
verify('t_pad', 'after a crash');
query('INSERT INTO t SELECT generate_series(3000000, 3019999)');
cmp_ok($size->(), '>', 2 * 1024 * 1024, 'with space again, it grows');
verify('t_pad', 'with space again');

#
# Connections
#
my @sessions;
for (1 .. 7)
{
	push @sessions, $node->background_psql('postgres', on_error_stop => 0);
	$sessions[-1]->query_safe('BEGIN; INSERT INTO t SELECT generate_series(5000000, 5000099)');
}
push @sessions, $node->background_psql('postgres', on_error_stop => 0);
my ($rc, $stdout, $stderr) = $node->psql('postgres', 'SELECT 1');
like($stderr, qr/too many clients already|remaining connection slots/, 'too many connections');
# They go as they are, in mid-transaction.
$sessions[0]->query_safe('ROLLBACK');
$sessions[0]->query_safe(q{
	SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
is($sessions[0]->query_safe('INSERT INTO t VALUES (6000000) RETURNING k'), 6000000,
	'one that was there goes on');
eval { $_->quit } foreach @sessions;
is(query('SELECT count(*) FROM t WHERE k = 5000000'), 0, 'the others are gone, with their rows');
verify('t_pad', 'after too many connections');

#
# Time: a client that is stopped anywhere in its insertions.  With assertions the
# server complains about pins and locks that are left.
#
query('CREATE UNIQUE INDEX t_k ON t USING bunbtree (k)');
my $insert = q{INSERT INTO t SELECT i FROM generate_series(7000000, 7001500) i ORDER BY hashint4(i)};
my %seen;
my $holder = $node->background_psql('postgres');
for my $round (1 .. 12)
{
	# every other millisecond of a statement, and a unique conflict to wait for
	my $setting = $round % 4 ? 'statement_timeout' : 'lock_timeout';

	$holder->query_safe('BEGIN; INSERT INTO t VALUES (7000777)');
	$seen{ sqlstate("SET $setting = '" . 2 * $round . "ms';\n$insert") }++;
	$holder->query_safe('ROLLBACK');
}
$holder->quit;
is($seen{'57014'}, 9, 'statement timeouts');
is($seen{'55P03'}, 3, 'lock timeouts');
is(query('SELECT count(*) FROM t WHERE k >= 7000000'), 0, 'no row of theirs is left');
verify('t_pad', 'after timeouts');

my $terminated = 0;
for my $round (1 .. 6)
{
	my $client = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $client->query_safe('SELECT pg_backend_pid()');

	$client->{timeout}->start($PostgreSQL::Test::Utils::timeout_default);
	$client->query_until(qr/started/, "\\echo started\n" . "$insert;\nDELETE FROM t WHERE k >= 7000000;\n" x 50);
	usleep(5_000 * $round);
	$terminated++ if query("SELECT pg_terminate_backend($pid, 10000)") eq 't';
	eval { $client->quit };
}
is($terminated, 6, 'backends terminated');
query('DELETE FROM t WHERE k >= 7000000');
query("$insert; DELETE FROM t WHERE k >= 7000000");
is(query('SELECT count(*) FROM t WHERE k >= 7000000'), 0, 'the next statements work');
verify('t_pad', 'after terminations');
is(query(q{SELECT bunbtree_check('t_k', true, true)}), '', 'so does the unique index');

$node->stop;
is(Stress::complaints(slurp_file($node->logfile)), '', 'no complaint in the log');
done_testing();
