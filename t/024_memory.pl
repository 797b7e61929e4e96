
# The memory of a session does not grow with the indexes that have come and gone,
# no more than it does with btree.  (make soak shows the rest, in hours.)

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
	CREATE TABLE kept (k int);
	CREATE INDEX kept_k ON kept USING bunbtree (k)});

# The smallest difference that counts.  A negative entry of a cache has over 100.
my $bytes = 32;
my $indexes = 300;
my $used = q{SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'CacheMemoryContext';};

# Temporary tables, each with an index, that a transaction creates and drops.
sub come_and_go
{
	my ($am) = @_;

	return qq{
		BEGIN;
		CREATE TEMP TABLE passing (k int) ON COMMIT DROP;
		CREATE INDEX passing_k ON passing USING $am (k);
		INSERT INTO passing VALUES (1);
		COMMIT;
	} x $indexes;
}

# Bytes that a session needs more after this; the second time, so that caches have
# what they are for.
sub growth
{
	my ($work) = @_;
	my @used = split /\n/, $node->safe_psql('postgres', "$work $used $work $used");

	return $used[1] - $used[0];
}

# The session itself: what it knows of an index must go.
my $btree = growth(come_and_go('btree'));
my $bunbtree = growth(come_and_go('bunbtree'));
cmp_ok($bunbtree, '<', $btree + $bytes * $indexes, 'temporary tables')
  or diag "btree $btree, bunbtree $bunbtree bytes";

# Another session, in which VACUUM gives up their slots.
my $session = $node->background_psql('postgres', on_error_stop => 1);
$session->query_safe('VACUUM kept;') for 1 .. 3;
my @used;
foreach (1 .. 2)
{
	$node->safe_psql('postgres', come_and_go('bunbtree'));
	$session->query_safe('VACUUM kept;');
	push @used, $session->query_safe($used);
}
cmp_ok($used[1], '<', $used[0] + $bytes * $indexes, q{other sessions' temporary tables});
$session->quit;

$node->stop;
done_testing();
