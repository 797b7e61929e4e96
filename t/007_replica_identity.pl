
# Logical replication by a bunbtree index: as REPLICA IDENTITY on the publisher,
# and to find the rows on the subscriber.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
foreach my $node ($publisher, $subscriber)
{
	$node->init(allows_streaming => 'logical');
	$node->start;
	# 16 and 17 look for the row by btree indexes only.
	my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);
	my $am = $node eq $publisher || $major < 16 || $major > 17 ? 'bunbtree' : 'btree';

	$node->safe_psql('postgres', qq{
		CREATE EXTENSION bunbtree;
		CREATE EXTENSION amcheck;
		CREATE TABLE t (k int NOT NULL, v int, w int);
		CREATE UNIQUE INDEX t_k ON t USING $am (k);
		CREATE INDEX t_v ON t USING bunbtree (v);
		ALTER TABLE t REPLICA IDENTITY USING INDEX t_k;
	});
}
$publisher->safe_psql('postgres', q{
	INSERT INTO t SELECT i, i, i FROM generate_series(1, 1000) i;
	CREATE PUBLICATION p FOR TABLE t;
});
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p");
$subscriber->wait_for_subscription_sync($publisher, 's');

$publisher->safe_psql('postgres', q{
	UPDATE t SET v = -v WHERE k <= 500;
	UPDATE t SET k = k + 10000 WHERE k > 900;
	DELETE FROM t WHERE k % 10 = 0;
	INSERT INTO t SELECT i, i, i FROM generate_series(1010, 2000, 10) i;
});
$publisher->wait_for_catchup('s');

my $query = 'SELECT count(*), sum(k), sum(v), sum(w) FROM t';
is($subscriber->safe_psql('postgres', $query),
	$publisher->safe_psql('postgres', $query), 'changes applied');
ok( $subscriber->poll_query_until('postgres',
		q{SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = 't_k'}),
	'rows found by the index');
$subscriber->safe_psql('postgres', q{
	SELECT bunbtree_check('t_v', true, true)});

$subscriber->stop;
$publisher->stop;
done_testing();
