
# A disk that is full: 96 megabytes that this script mounts for itself.  First only
# indexes run out of space, then everything, WAL too, which takes the server down.  What
# was committed is there and in the indexes, and it goes on as soon as there is room.

use strict;
use warnings;

# Mount it where nobody else sees it, in a namespace of which an unprivileged user may
# be root, and go on there under the user's own ID again, since the server does not run
# as root.
my $disk;

BEGIN
{
	$disk = '/mnt';
	my @in_namespace = (
		'unshare', '--user', '--map-root-user', '--mount',
		'sh', '-c', 'mount -t tmpfs -o size=96m,mode=700 none "$1" && shift && exec "$@"', 'sh', $disk,
		'unshare', '--user', "--map-user=$>", '--map-group=' . (split ' ', $))[0]);

	if (!$ENV{BUNBTREE_FULL_DISK})
	{
		$ENV{BUNBTREE_FULL_DISK} =
		  system(join(' ', map { "'$_'" } @in_namespace, 'true') . ' >/dev/null 2>&1') == 0
		  ? 'mounted' : 'forbidden';
		exec @in_namespace, $^X, (map { "-I$_" } @INC), $0
		  if $ENV{BUNBTREE_FULL_DISK} eq 'mounted';
	}
}

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stress;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'a file system cannot be mounted here; 018_exhaustion.pl imitates a full disk'
  if $ENV{BUNBTREE_FULL_DISK} ne 'mounted';

my $full = qr/could not extend file "pg_tblspc.*No space left on device/;
my $filler = "$disk/filler";
my $node;

# Take all space but so many megabytes.
sub fill_disk
{
	my ($left) = @_;
	my ($size) = `df --output=avail -k '$disk'` =~ /(\d+)/;

	system_or_bail('fallocate', '-l', ($size - 1024 * $left) . 'K', $filler);
	return;
}

sub create_tables
{
	my ($indexes) = @_;

	$node->append_conf('postgresql.conf', q{
autovacuum = off
max_wal_senders = 0
wal_level = minimal
min_wal_size = 2MB
max_wal_size = 4MB
wal_recycle = off
});
	$node->start;
	$node->safe_psql('postgres', qq{
		CREATE EXTENSION bunbtree;
		CREATE EXTENSION amcheck;
		CREATE FUNCTION pad(k int) RETURNS text LANGUAGE sql IMMUTABLE
			RETURN repeat(pg_catalog.md5(k::text), 5);
		CREATE TABLE t (k int) WITH (autovacuum_enabled = off)});
	$node->safe_psql('postgres', $_) foreach @$indexes;
	$node->safe_psql('postgres', 'INSERT INTO t SELECT generate_series(1, 5000)');
	return;
}

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

# Rows by either index and without, and amcheck's verdict.
sub verify
{
	my ($what) = @_;

	is( query(q{
			SET enable_seqscan = off; SET enable_bitmapscan = off;
			SELECT count(*) FROM t WHERE pad(k) > '';
			SELECT count(*) FROM t WHERE k > 0;
			SET enable_seqscan = on; SET enable_indexscan = off;
			SET enable_indexonlyscan = off;
			SELECT count(*) FROM t;
			SELECT bunbtree_check('t_pad', true, true), bunbtree_check('t_k', true, true)}),
		join("\n", (query('SELECT count(*) FROM t')) x 3, '|'),
		"$what: all rows are in the indexes, amcheck passes");
	return;
}

# Merge leaf pages, and make them usable: no transaction may be older than that.
sub compact
{
	query('VACUUM t');
	query(q{CALL bunbtree_compact('t_pad', pause => '0')});
	query('SELECT pg_current_xact_id()');
	query('VACUUM t');
	return;
}

# What statements say on stderr, each in a transaction of its own.  The server may be
# gone before psql has read them, which psql() takes ill.
sub complaint
{
	my @statements = map { ('-c', $_) } @_;
	my ($stdout, $stderr) =
	  run_command([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), @statements ]);

	return $stderr;
}

# Insert until it fails.  Returns the first key that is not there, and the error.
sub insert_until_full
{
	my ($key) = @_;

	for (1 .. 1000)
	{
		my $stderr = complaint("INSERT INTO t SELECT generate_series($key, $key + 199)");

		return ($key, $stderr) if $stderr ne '';
		$key += 200;
	}
	die 'it does not get full';
}

#
# Indexes only
#
$node = PostgreSQL::Test::Cluster->new('indexes');
$node->init(extra => [ '--wal-segsize=1' ]);
mkdir "$disk/space" or die "mkdir: $!";
create_tables([
	"CREATE TABLESPACE disk LOCATION '$disk/space'",
	'CREATE INDEX t_pad ON t USING bunbtree (pad(k)) TABLESPACE disk',
	'CREATE UNIQUE INDEX t_k ON t USING bunbtree (k) TABLESPACE disk' ]);
# VACUUM needs a free space map, and there will be no space for one.
query(q{
	INSERT INTO t SELECT generate_series(5001, 10000);
	DELETE FROM t WHERE k > 5000});
compact();
cmp_ok(query(q{SELECT pg_relation_size('t_pad', 'fsm')}), '>', 0, 'there is a free space map');
fill_disk(3);

my ($key, $error) = insert_until_full(10_001);
like($error, $full, 'a page cannot be split, the disk is full');
is(query('SELECT max(k) + 1 FROM t'), $key, 'what was committed is there, and nothing else');
verify('full disk');

# Again and again, in one session, with and without savepoints.
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $failed = 0;
for my $try (1 .. 20)
{
	$session->{stderr} = '';
	$session->query('BEGIN; SAVEPOINT s') if $try % 2;
	$session->query('INSERT INTO t SELECT generate_series(1000001, 1001000)');
	$failed++ if $session->{stderr} =~ $full;
	$session->query('ROLLBACK TO s; COMMIT') if $try % 2;
}
is($failed, 20, 'it stays full');
$session->{stderr} = '';
is($session->query('SELECT max(k) + 1 FROM t'), $key, 'the session goes on');
is($session->{stderr}, '', 'without an error');
$session->quit;
verify('after more of it');

# The place of what has been deleted can be used: its entries' at once, since the next
# insertion after one that failed may have a pass, and that of pages that compaction
# merges.
query('DELETE FROM t WHERE k > 5000; INSERT INTO t SELECT generate_series(10001, 11000)');
is(query('SELECT count(*) FROM t'), 6000, 'rows take the place of others');
verify('rows exchanged on a full disk');
query('DELETE FROM t WHERE k > 5000');
my $leaves_merged = q{SELECT leaves_merged FROM pg_stat_bunbtree WHERE indexrelname = 't_pad'};
my $merged = query($leaves_merged);
compact();
cmp_ok(query($leaves_merged), '>', $merged + 10, 'compaction needs no space');
verify('after compaction');
query('INSERT INTO t SELECT generate_series(10001, 14000)');
verify('its pages are used');
($key, $error) = insert_until_full(14001);
like($error, $full, 'until they are full, too');
my $rows = query('SELECT count(*) FROM t');
verify('full again');

# A crash with a full disk.
$node->psql('postgres', 'INSERT INTO t SELECT generate_series(1000001, 1020000)');
$node->stop('immediate');
$node->start;
is(query('SELECT count(*) FROM t'), $rows, 'after a crash, the rows are the same');
verify('after a crash');

unlink $filler or die "unlink: $!";
query('INSERT INTO t SELECT generate_series(1000001, 1020000)');
is(query('SELECT count(*) FROM t'), $rows + 20000, 'with space again, it goes on');
verify('with space again');
$node->stop;
is(Stress::complaints(slurp_file($node->logfile)), '', 'no complaint in the log');

#
# Everything is on that disk, WAL too.  That the server cannot do without.
#
$node = PostgreSQL::Test::Cluster->new('everything');
mkdir "$disk/data" or die "mkdir: $!";
mkdir $node->basedir;
symlink "$disk/data", $node->data_dir or die "symlink: $!";
$node->init(extra => [ '--wal-segsize=1' ]);
create_tables([
	'CREATE INDEX t_pad ON t USING bunbtree (pad(k))',
	'CREATE UNIQUE INDEX t_k ON t USING bunbtree (k)' ]);
for my $round (1 .. 3)
{
	my $first = 100_000 * $round;
	my $down = 0;

	fill_disk(2 + $round);
	($key, $error) = insert_until_full($first);
	like($error, qr/No space left on device|server closed the connection|connection to server/, "round $round: the disk is full");
	for (1 .. 100)
	{
		# Churn needs no space but for WAL.
		complaint('DELETE FROM t WHERE k <= 5000',
			'INSERT INTO t SELECT generate_series(1, 5000)', 'CHECKPOINT');
		$down = !-e $node->data_dir . '/postmaster.pid';
		last if $down;
		usleep(100_000);
	}
	ok($down, 'the server gives up');
	$node->_update_pid(0);

	# While it is full, it may start or not.
	$node->stop('immediate') if $node->start(fail_ok => 1);
	unlink $filler or die "unlink: $!";
	$node->start;
	# What has not been confirmed may have been committed, all or nothing of it.
	like(query("SELECT max(k) + 1 FROM t"), qr/^(?:$key|@{[ $key + 200 ]})$/,
		'what was committed is there');
	is(query("SELECT max(k) - min(k) + 1 - count(*) FROM t WHERE k >= $first"), 0, 'all of it');
	verify('with space again');
	query('TRUNCATE t; INSERT INTO t SELECT generate_series(1, 5000)');
}
$node->stop;
done_testing();
