
# Random SQL on twin tables, one with btree indexes, one with bunbtree indexes,
# by several clients; after each round they must have the same rows, through every
# index, by every kind of scan, and to every snapshot that is still held.
#
# BUNBTREE_STRESS_SEED		where random numbers begin (default 1)
# BUNBTREE_STRESS_DURATION	seconds (default 60)
#
# The SQL of a failed round, and its output, stay in tmp_check/.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stress;
use Test::More;

my $seed = $ENV{BUNBTREE_STRESS_SEED} || 1;
my $duration = $ENV{BUNBTREE_STRESS_DURATION} || 60;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
Stress::configure($node);
$node->start;

my $stress = Stress->new(node => $node, seed => $seed);
$stress->create;
note "seed $seed, $duration seconds; target of ON CONFLICT is $stress->{arbiter}";

my $rng = Stress::generator($seed, 0);
my $end = time + $duration;
my $wrong = '';

while (time < $end && $wrong eq '')
{
	# Sometimes somebody holds a snapshot, for a few rounds.
	if ($stress->{round} % 4 == 1 || $stress->holders && $rng->(2))
	{
		$stress->hold((qw(plain cursor serializable exported))[ $rng->(4) ]);
	}
	$stress->start_round;
	$wrong = $stress->finish_round;
	$wrong = $stress->check_held if $wrong eq '';
	while ($wrong eq '' && ($stress->holders > 3 || $stress->holders && $rng->(3) == 0))
	{
		$wrong = $stress->release;
	}
	$stress->tidy;
	$wrong = $stress->check if $wrong eq '';
	$stress->count_deleted;
	$stress->adopt_all if $stress->holders == 0 && $rng->(5);
	is($wrong, '', "seed $seed, round $stress->{round}");
}

# Those that are held to the end.
while ($stress->holders)
{
	is($stress->release, '', "seed $seed, a snapshot released");
}

cmp_ok($stress->count_deleted, '>', 1000, 'passes deleted entries');
cmp_ok($stress->{merged}, '>', 10, 'compaction removed leaf pages');
diag $stress->summary;
$node->stop;

is(Stress::complaints(slurp_file($node->logfile)), '', 'no complaint in the log');
done_testing();
