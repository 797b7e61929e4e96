
# The rows that a pass met are looked at again, to find out why it has freed
# nothing; after a pass that has paid there is nothing to find out.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
bunbtree.max_pass_time = 1000
});
$node->start;

# A leaf page has room for 407 entries of an int.  A heap block has four of these
# rows; those that died before the index was made are reason enough to ask.
sub make_table
{
	my ($name, $dead) = @_;

	$node->safe_psql('postgres', $_) for
	  "CREATE TABLE $name (k int, pad text) WITH (autovacuum_enabled = off)",
	  "ALTER TABLE $name ALTER pad SET STORAGE PLAIN",
	  "INSERT INTO $name SELECT generate_series(-100, -1)",
	  "DELETE FROM $name",
	  "CREATE INDEX ${name}_k ON $name USING bunbtree (k)",
	  "INSERT INTO $name SELECT i, repeat('x', 1900) FROM generate_series(1, 405) i",
	  "DELETE FROM $name WHERE $dead";
	return;
}

# Accesses to the table's blocks by one insertion, and which of them were visits
# of a pass; how many entries went; how many rows were looked at.
sub insert_rows
{
	my ($name) = @_;
	my $sql = '';
	my $state = qq{
		SELECT pg_stat_force_next_flush();
		SELECT heap_blks_hit + heap_blks_read, heap_blocks_visited, passes,
			   entries_deleted > 0, entries_live
		FROM pg_statio_user_tables t JOIN pg_stat_bunbtree s USING (relid)
		WHERE t.relname = '$name';};

	$sql .= "INSERT INTO $name VALUES ($_); $state" for 406 .. 408;
	my @lines = grep { /\|/ } split /\n/, $node->safe_psql('postgres', $sql);
	my ($first, $second, $third) = map { [ split /\|/ ] } @lines;

	is("$second->[2], $third->[2]", '0, 1', "$name: the last insertion has a pass");
	my $base = $second->[0] - $first->[0];
	return {
		others => $third->[0] - $second->[0] - $base - $third->[1],
		deleted => $third->[3],
		live => $third->[4]
	};
}

$node->safe_psql('postgres', 'CREATE EXTENSION bunbtree');

# One row in every second block is dead: half of the visits free nothing.
make_table('paying', 'k % 8 = 0');
my $result = insert_rows('paying');
is($result->{deleted}, 't', 'a pass that pays');
is($result->{others}, 0, 'no block is looked at again');

make_table('fruitless', 'false');
$result = insert_rows('fruitless');
is($result->{deleted}, 'f', 'a pass without fruit');
is($result->{live}, 4, 'four rows are examined');
is($result->{others}, 4, 'their blocks are looked at again');

$node->stop;
done_testing();
