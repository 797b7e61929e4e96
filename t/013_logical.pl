
# Logical replication between indexes of different access methods: what has btree
# indexes on the publisher has bunbtree indexes on the subscriber, and the other way
# about.  Rows to update and delete are looked up through these indexes.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Stress;
use Test::More;

my ($publisher, $subscriber) = map { PostgreSQL::Test::Cluster->new($_) } qw(publisher subscriber);
$publisher->init(allows_streaming => 'logical');
$subscriber->init;
foreach my $node ($publisher, $subscriber)
{
	Stress::configure($node);
	$node->start;
}
my $stress = Stress->new(node => $publisher, seed => 14, clients => 3, no_maintenance => 1);
$stress->create;

$subscriber->safe_psql('postgres', 'CREATE EXTENSION bunbtree; CREATE EXTENSION amcheck');
Stress::create_functions($subscriber);
$subscriber->safe_psql('postgres', Stress::tables('bt', 'bunbtree', 'bunbtree'));
$subscriber->safe_psql('postgres', Stress::tables('bun', 'btree', 'btree'));

# 16 and 17 cannot use a replica identity that is not btree.
my $major = int($publisher->safe_psql('postgres', 'SHOW server_version_num') / 10000);
my $identity = $major == 16 || $major == 17 ? 'FULL' : 'USING INDEX';
foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql('postgres', join '', map { qq{
		ALTER TABLE $_.plain ALTER id SET NOT NULL, ALTER owner SET NOT NULL;
		ALTER TABLE $_.keyed ALTER key SET NOT NULL;
		ALTER TABLE $_.plain REPLICA IDENTITY $identity} . ($identity eq 'FULL' ? '' : ' plain_id') . qq{;
		ALTER TABLE $_.keyed REPLICA IDENTITY $identity} . ($identity eq 'FULL' ? '' : ' keyed_key') . qq{;
		ALTER TABLE $_.parted_0 REPLICA IDENTITY FULL;
		ALTER TABLE $_.parted_1 REPLICA IDENTITY FULL;
		DELETE FROM stress.probes WHERE tab = 'unlogged';
	} } qw(bt bun));
}

# Some rows are copied, others replicated.
$stress->start_round;
is($stress->finish_round, '', 'rows to be copied');
$publisher->safe_psql('postgres', q{
	CREATE PUBLICATION p FOR TABLE bt.plain, bt.keyed, bt.parted, bun.plain, bun.keyed, bun.parted});
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION '" . ($publisher->connstr =~ s/'/''/gr)
	  . " dbname=postgres' PUBLICATION p");
$subscriber->poll_query_until('postgres',
	q{SELECT count(*) > 0 AND every(srsubstate IN ('r', 's')) FROM pg_subscription_rel})
  or die 'not copied';

foreach my $round (1 .. 3)
{
	$stress->start_round;
	is($stress->finish_round, '', "round $round");
}
$publisher->wait_for_catchup('s');

my $rows = $publisher->safe_psql('postgres', 'SELECT stress.check(true)');
is($subscriber->safe_psql('postgres', q{SELECT stress.check(true, 'bt')}), $rows,
	'btree to bunbtree: the same rows through all indexes');
is($subscriber->safe_psql('postgres', q{SELECT stress.check(true, 'bun')}), $rows,
	'bunbtree to btree: the same');
is($subscriber->safe_psql('postgres', 'SELECT stress.amcheck()'), '', 'amcheck passes on the subscriber');
is($publisher->safe_psql('postgres', 'SELECT stress.amcheck()'), '', 'and on the publisher');
cmp_ok($subscriber->safe_psql('postgres',
		q{SELECT sum(entries_deleted) FROM pg_stat_bunbtree WHERE schemaname = 'bt'}),
	'>', 0, 'passes delete entries on the subscriber, where nbtree has no hint');
is( $subscriber->safe_psql('postgres', q{
		SELECT count(*) FROM pg_stat_user_indexes
		WHERE schemaname = 'bt' AND indexrelname IN ('plain_id', 'keyed_key') AND idx_scan > 100}),
	$identity eq 'FULL' ? 0 : 2, 'rows were looked up through bunbtree indexes');

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
foreach my $node ($publisher, $subscriber)
{
	$node->stop;
	is(Stress::complaints(slurp_file($node->logfile)), '',
		'no complaint in the log of the ' . $node->name);
}
done_testing();
