
# Copies of a database that is being written: pg_basebackup in mid-churn, and
# pg_dump as a script, an archive, and a directory written and read in parallel.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stress;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
Stress::configure($node);
$node->start;
my $stress = Stress->new(node => $node, seed => 16, clients => 3, no_maintenance => 1);
$stress->create;
$stress->start_round;
is($stress->finish_round, '', 'rows');

#
# A backup, taken while clients write.
#
$stress->{transactions} = 60;
$stress->start_round;
$node->backup('backup');
is($stress->finish_round, '', 'churn during the backup');
cmp_ok($stress->count_deleted, '>', 100, 'passes deleted entries');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'backup');
$copy->start;
is($stress->check($copy), '', 'pg_basebackup: the same rows through all indexes, amcheck passes');
$copy->safe_psql('postgres', q{
	SET enable_indexscan = off; SET enable_bitmapscan = off;
	UPDATE bt.plain SET k = k + 1; UPDATE bun.plain SET k = k + 1;
	UPDATE bt.plain SET k = k + 1; UPDATE bun.plain SET k = k + 1});
is($stress->check($copy), '', 'the copy can be written');
$copy->stop;

#
# Dumps
#
my $indexes = q{
	SELECT c.oid::regclass, amname, pg_get_indexdef(c.oid)
	FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE relkind IN ('i', 'I') AND relnamespace = 'bun'::regnamespace ORDER BY 1::text, 3};
my $rows = $node->safe_psql('postgres', 'SELECT stress.check(true)');
my $wanted = $node->safe_psql('postgres', $indexes);
like($wanted, qr/\|bunbtree\|.*INCLUDE.*\|bunbtree\|/s, 'indexes to be dumped');

sub check_copy
{
	my ($database, $what) = @_;

	is($node->safe_psql($database, 'SELECT stress.check(true)'), $rows,
		"$what: the same rows through all indexes");
	is($node->safe_psql($database, 'SELECT stress.amcheck()'), '', "$what: amcheck passes");
	is($node->safe_psql($database, $indexes), $wanted, "$what: the same indexes");
	return;
}

my $dir = $node->basedir;
my @restore = ('pg_restore', '--exit-on-error', '-d');
foreach my $database (qw(script custom directory))
{
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
}
$node->command_ok([ 'pg_dump', '-f', "$dir/dump.sql", 'postgres' ], 'pg_dump, a script');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/dump.sql", 'script' ], 'psql');
check_copy('script', 'script');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump", 'postgres' ], 'pg_dump -Fc');
$node->command_ok([ @restore, 'custom', "$dir/dump" ], 'pg_restore');
check_copy('custom', 'archive');
$node->command_ok([ 'pg_dump', '-Fd', '-j', '2', '-f', "$dir/dir", 'postgres' ],
	'pg_dump -Fd -j 2');
$node->command_ok([ @restore, 'directory', '-j', '2', "$dir/dir" ], 'pg_restore -j 2');
check_copy('directory', 'directory, in parallel');

$node->stop;
is(Stress::complaints(slurp_file($node->logfile)), '', 'no complaint in the log');
done_testing();
