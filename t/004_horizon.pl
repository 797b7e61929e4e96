
# While somebody's snapshot keeps dead rows, passes are few, and say why; when it
# is gone, they begin again at once, whatever other insertions have met
# meanwhile.  What never was visible to anybody goes under the snapshot's eyes.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
log_min_messages = debug1
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE TABLE q (id int, k int, v int) WITH (autovacuum_enabled = off);
	CREATE INDEX q_k ON q USING bunbtree (k);
	CREATE INDEX q_v ON q (v);
	INSERT INTO q SELECT i, i, 0 FROM generate_series(1, 20000) i;
});

sub counter
{
	my ($counter) = @_;

	return $node->safe_psql('postgres',
		"SELECT $counter FROM pg_stat_bunbtree WHERE indexrelname = 'q_k'");
}

my $holder = $node->background_psql('postgres', on_error_die => 1);
my $writer = $node->background_psql('postgres', on_error_die => 1);

$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $holder->query_safe('SELECT count(*), sum(v) FROM q');

# The executor hints that the key of q_k is unchanged.
my $log = -s $node->logfile;
$writer->query_safe('UPDATE q SET v = v + 1') for 1 .. 4;
my $held = counter('passes');
cmp_ok($held, '>', 0, 'there were passes');
cmp_ok($held, '<', 40, 'few in 80,000 insertions while the horizon is held');
is(counter('entries_deleted'), 0, 'they deleted nothing');
cmp_ok(counter('blocked_by_horizon'), '>', $held / 2, 'the horizon is the reason');
cmp_ok(counter('entries_recently_dead'), '>=', counter('blocked_by_horizon'),
	'rows that passes met are dead');
like(slurp_file($node->logfile, $log),
	qr/DEBUG:  index "q_k": rows deleted by transaction \d+ cannot be removed yet, passes wait/,
	'the log says when the wait begins');

# Insertions of another kind, on pages without garbage, fail for another
# reason.
$writer->query_safe(
	'INSERT INTO q SELECT i, i + 100000, 0 FROM generate_series(1, 20000) i');
cmp_ok(counter('passes'), '>', $held, 'passes for plain insertions were fruitless, too');
cmp_ok(counter('entries_live'), '>', 0, 'on live rows');

# Rolled back, as a transaction and as a savepoint: dead for everybody.  The
# passes that find out come at a rate of one would-be split in about a thousand,
# so it takes some insertions.
my $deleted = counter('entries_deleted');
for my $rollback ('ROLLBACK', 'ROLLBACK TO s; COMMIT')
{
	for my $round (1 .. 40)
	{
		$writer->query_safe(qq{
			BEGIN;
			SAVEPOINT s;
			INSERT INTO q SELECT i, i % 20000, 0 FROM generate_series(1, 10000) i;
			$rollback;});
	}
	my $more = counter('entries_deleted');
	cmp_ok($more, '>', $deleted + 200000, "$rollback: most of 400,000 aborted rows' entries go")
	  or diag("$deleted -> $more");
	$deleted = $more;
}

is($holder->query_safe('SELECT count(*), sum(v) FROM q'), $seen,
	'the snapshot sees its rows');
is($holder->query_safe(q{
		SET LOCAL enable_seqscan = off;
		SELECT count(*), sum(v) FROM q WHERE k > 0}), $seen, 'through the index, too');
$log = -s $node->logfile;
$holder->query_safe('COMMIT');

# Another session is the first to know, because what was learned is the index's.
$held = counter('passes');
$node->safe_psql('postgres', 'UPDATE q SET v = v + 1 WHERE id <= 2000 AND v > 0');
cmp_ok(counter('passes'), '>', $held, 'passes begin again when the horizon is released');
cmp_ok(counter('entries_deleted'), '>', $deleted + 1000, 'and delete what has been waiting');
like(slurp_file($node->logfile, $log),
	qr/DEBUG:  index "q_k": rows deleted by transaction \d+ can be removed now, passes begin again/,
	'the log says that the wait is over');
is($node->safe_psql('postgres', q{SELECT bunbtree_check('q_k', true, true)}), '',
	'amcheck passes');

$holder->quit;
$writer->quit;
$node->stop;
done_testing();
