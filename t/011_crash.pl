
# The server is killed at random moments of random SQL on twin tables (see
# lib/Stress.pm), while indexes are compacted, and single backends are; after
# recovery the twins have the same rows, and amcheck passes.  A standby replays all
# of it, and compares each page with the primary's (wal_consistency_checking).
#
# BUNBTREE_STRESS_SEED	where random numbers begin (default 1)
# BUNBTREE_CRASHES		times that the whole server is killed (default 12); a
#						backend is killed after the first of each four

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stress;
use Test::More;
use Time::HiRes qw(usleep);

my $seed = $ENV{BUNBTREE_STRESS_SEED} || 1;
my $crashes = $ENV{BUNBTREE_CRASHES} || 12;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
Stress::configure($primary);
$primary->append_conf('postgresql.conf', q{
restart_after_crash = on
wal_consistency_checking = 'btree'
checkpoint_timeout = 30s
});
$primary->start;
# However far behind the standby is, it gets all of it.
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
my $stress = Stress->new(node => $primary, seed => $seed, transactions => 150,
	clients => 3, compactions => 20);
$stress->create;
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
primary_slot_name = 'standby'
wal_retrieve_retry_interval = 100ms
max_standby_streaming_delay = 0
});
$standby->start;

my $rng = Stress::generator($seed, 2000);

sub children
{
	my ($postmaster) = @_;

	return map { /^\s*(\d+)\s+$postmaster$/ ? $1 : () } split /\n/, `ps -e -o pid=,ppid=`;
}

sub postmaster
{
	my ($pid) = split /\n/, slurp_file($primary->data_dir . '/postmaster.pid');

	return $pid;
}

# All processes at once, as if the power had failed (but for the kernel's cache).
sub kill_server
{
	my $postmaster = postmaster();

	kill 'STOP', $postmaster;
	my @children = children($postmaster);
	$primary->kill9;
	kill 'KILL', @children;
	for (1 .. 1000)
	{
		last unless grep { kill 0, $_ } @children;
		usleep(10_000);
	}
	return;
}

sub wait_until_ready
{
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if system('pg_isready', '-q', '-d', $primary->connstr('postgres')) == 0;
		usleep(100_000);
	}
	die 'the server did not restart';
}

# After recovery: of unlogged tables nothing is left, of others all that was
# committed, in both schemas.
sub verify
{
	my ($what) = @_;

	my $wrong = $stress->finish_round('crashed');
	my $unlogged = $primary->safe_psql('postgres',
		'SELECT (SELECT count(*) FROM bt.unlogged), (SELECT count(*) FROM bun.unlogged)');

	$stress->tidy;
	$wrong ||= $stress->check;
	$wrong ||= "rows in unlogged tables: $unlogged" if $unlogged ne '0|0';
	is($wrong, '', "seed $seed, $what: the same rows, amcheck passes");
	return;
}

my $deleted = 0;
my $backends = 0;
foreach my $crash (1 .. $crashes)
{
	$stress->start_round;
	usleep(200_000 + $rng->(1_300_000));
	$deleted += $primary->safe_psql('postgres',
		'SELECT coalesce(sum(entries_deleted), 0) FROM pg_stat_bunbtree');
	$primary->safe_psql('postgres', 'CHECKPOINT') if $rng->(3) == 0;
	kill_server();
	$primary->start;
	verify("crash $crash");

	next if $crash % 4 != 1;
	$stress->start_round;
	usleep(200_000 + $rng->(800_000));
	my @pids = split /\n/, $primary->safe_psql('postgres', q{
		SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
		ORDER BY backend_start});
	kill 'KILL', $pids[ $rng->(scalar @pids) ];
	$backends++;
	foreach my $client (@{ $stress->{running} })
	{
		IPC::Run::finish($client->{run});
	}
	wait_until_ready();
	verify("backend $backends killed");
}

# A round to its end, however slow the machine is: it all goes on.
$stress->start_round;
my $wrong = $stress->finish_round;
$stress->tidy;
$wrong ||= $stress->check;
is($wrong, '', "seed $seed, a round without a crash");
$deleted += $primary->safe_psql('postgres',
	'SELECT coalesce(sum(entries_deleted), 0) FROM pg_stat_bunbtree');
cmp_ok($deleted, '>', 0, 'passes deleted entries');
cmp_ok($stress->{merged}, '>', 0, 'compaction removed leaf pages');
diag "$crashes crashes, $backends backends killed, $deleted entries deleted by passes, "
  . "$stress->{merged} leaf pages by compaction";

# The standby has replayed everything; a page that differs would have stopped it.
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
# Unlogged tables cannot be read there.
$primary->safe_psql('postgres', q{DELETE FROM stress.probes WHERE tab = 'unlogged'});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is( $standby->safe_psql('postgres', 'SELECT stress.check(true)'),
	$primary->safe_psql('postgres', 'SELECT stress.check(true)'),
	'the standby has the same rows');
$standby->stop;
$primary->stop;

is(Stress::complaints(slurp_file($standby->logfile) =~ s/.*WARNING:  terminating connection because of crash.*\n//gr),
	'', 'no complaint in the log of the standby');
is( Stress::complaints(join "\n",
		grep { !/terminating connection because of crash|terminated by signal 9/ }
		  split /\n/, slurp_file($primary->logfile)),
	'', 'nor in that of the primary, but for those killed');
done_testing();
