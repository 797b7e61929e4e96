
# A transaction that needs room in shared memory does not take that of an index
# which it has dropped itself: it may still roll that back.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
bunbtree.max_indexes = 1
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE TABLE t (k int);
	CREATE INDEX t_k ON t USING bunbtree (k);
	CREATE TABLE other (k int);
	CREATE INDEX other_k ON other USING bunbtree (k);
	INSERT INTO t SELECT generate_series(1, 10);});

# What all sessions know is what a new one sees.
my $counted = q{
	SELECT string_agg(c.relname || ' ' || s.declined, ', ')
	FROM bunbtree_counters() s JOIN pg_class c ON c.oid = s.index
	WHERE s.kind = 'other'};
is($node->safe_psql('postgres', $counted), 't_k 10', 'one index has the only slot');

$node->safe_psql('postgres', q{
	BEGIN;
	SAVEPOINT before;
	DROP INDEX t_k;
	INSERT INTO other VALUES (1);
	ROLLBACK TO before;
	INSERT INTO t VALUES (11);
	COMMIT;});
is($node->safe_psql('postgres', $counted), 't_k 11', 'and keeps it when its drop is rolled back');

$node->stop;
done_testing();
