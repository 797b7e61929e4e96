
# Heap blocks that are not in shared buffers are not read under the leaf page's
# lock, unless bunbtree.io says so.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
shared_buffers = 1MB
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION bunbtree; CREATE EXTENSION amcheck');

# The oldest rows of a table of ten times shared_buffers go, others come.
# Returns: entries deleted, heap blocks skipped.
sub churn
{
	my ($io) = @_;

	my $out = $node->safe_psql('postgres', qq{
		SET bunbtree.io = '$io';
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int, k int, pad text) WITH (autovacuum_enabled = off);
		CREATE INDEX t_k ON t USING bunbtree (k);
		INSERT INTO t SELECT i, hashint4(i), repeat('x', 500) FROM generate_series(1, 20000) i;
		DELETE FROM t WHERE id <= 10000;
		INSERT INTO t SELECT i, hashint4(i), repeat('x', 500) FROM generate_series(20001, 30000) i;
		SELECT bunbtree_check('t_k', true);
		SELECT entries_deleted, heap_blocks_not_cached FROM pg_stat_bunbtree WHERE indexrelid = 't_k'::regclass});
	return (split /\n/, $out)[-1] =~ /(\d+)\|(\d+)/;
}

my ($deleted, $not_cached) = churn('cached');
my ($deleted_reading, $not_cached_reading) = churn('any');

cmp_ok($not_cached, '>', 0, 'blocks are skipped by default');
cmp_ok($deleted_reading, '>', $deleted, 'reading them finds more');
cmp_ok($not_cached_reading, '>', 0, 'but no more than a few in each pass');

$node->stop;
done_testing();
