
# While somebody's snapshot keeps dead rows, passes are few; when it is gone,
# they begin again at once, whatever other insertions have met meanwhile.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE TABLE q (id int, k int, v int) WITH (autovacuum_enabled = off);
	CREATE INDEX q_k ON q USING bunbtree (k);
	CREATE INDEX q_v ON q (v);
	INSERT INTO q SELECT i, i, 0 FROM generate_series(1, 20000) i;
});

my $holder = $node->background_psql('postgres', on_error_die => 1);
my $writer = $node->background_psql('postgres', on_error_die => 1);

# Counters belong to the session, so all insertions are the writer's.
sub passes
{
	return $writer->query_safe('SELECT passes FROM bunbtree_stats($$q_k$$)');
}

$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $holder->query_safe('SELECT count(*), sum(v) FROM q');

# The executor hints that the key of q_k is unchanged.
$writer->query_safe('UPDATE q SET v = v + 1') for 1 .. 4;
my $held = passes();
cmp_ok($held, '>', 0, 'there were passes');
cmp_ok($held, '<', 40, 'few in 80,000 insertions while the horizon is held');
is($writer->query_safe('SELECT entries_deleted FROM bunbtree_stats($$q_k$$)'), 0,
	'they deleted nothing');

# Insertions of another kind, on pages without garbage, fail for another
# reason.
$writer->query_safe(
	'INSERT INTO q SELECT i, i + 100000, 0 FROM generate_series(1, 20000) i');
cmp_ok(passes(), '>', $held, 'passes for plain insertions were fruitless, too');

is($holder->query_safe('SELECT count(*), sum(v) FROM q'), $seen,
	'the snapshot sees its rows');
is($holder->query_safe(q{
		SET LOCAL enable_seqscan = off;
		SELECT count(*), sum(v) FROM q WHERE k > 0}), $seen, 'through the index, too');
$holder->query_safe('COMMIT');

$held = passes();
$writer->query_safe('UPDATE q SET v = v + 1 WHERE id <= 2000');
cmp_ok(passes(), '>', $held, 'passes begin again when the horizon is released');
cmp_ok($writer->query_safe('SELECT entries_deleted FROM bunbtree_stats($$q_k$$)'), '>', 1000,
	'and delete what has been waiting');
is($node->safe_psql('postgres', q{SELECT bunbtree_check('q_k', true, true)}), '',
	'amcheck passes');

$holder->quit;
$writer->quit;
$node->stop;
done_testing();
