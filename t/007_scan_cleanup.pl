
# bunbtree.scan_cleanup_limit: on how many leaf pages a scan that only reads may
# mark dead entries, and so make them dirty and, with checksums, log an image of
# them.  Whoever writes is not limited.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE EXTENSION pageinspect;
	CREATE EXTENSION pg_walinspect;
	CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
	CREATE INDEX t_k ON t USING bunbtree (k);
	CREATE TABLE other (a int);

	-- Leaf pages with entries that are marked as dead.
	CREATE FUNCTION marked_pages() RETURNS bigint LANGUAGE sql AS $$
		SELECT count(DISTINCT b)
		FROM generate_series(1, pg_relation_size('t_k') / current_setting('block_size')::int - 1) b,
			 bt_page_items(get_raw_page('t_k', b))
		WHERE dead
	$$;

	-- WAL records about the index, and images of its pages for the sake of hints.
	CREATE FUNCTION index_wal(since pg_lsn, OUT records bigint, OUT images bigint) LANGUAGE sql AS $$
		SELECT count(*), count(*) FILTER (WHERE record_type = 'FPI_FOR_HINT')
		FROM pg_get_wal_records_info(since, pg_current_wal_flush_lsn())
		WHERE block_ref ~ format('rel \d+/\d+/%s\M', pg_relation_filenode('t_k'))
	$$;
});

# The table as it is at the beginning of every test: of 20,000 rows 19,980 are
# dead, their hint bits set by a sequential scan, and nothing changed since the
# last checkpoint.  It has no statistics that would make the planner look into
# the index as well.
my $start = q{
	TRUNCATE t;
	INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i;
	DELETE FROM t WHERE k % 1000 <> 0;
	SELECT sum(v) FROM t;
	CHECKPOINT;
};
my $by_index = q{
	SET enable_seqscan = off;
	SET enable_bitmapscan = off;
	SET enable_sort = off;
	SET enable_indexonlyscan = off;
};
my $read = 'SELECT count(*), sum(v) FROM t WHERE k > 0';
my $rows = '20|210000';

# Runs statements in a new session.  Returns the leaf pages marked, records of
# the index, images of its pages, and the statements' output.
sub run
{
	my ($limit, $sql) = @_;

	$node->safe_psql('postgres', $start);
	my $since = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	my $out = $node->safe_psql('postgres',
		"$by_index SET bunbtree.scan_cleanup_limit = $limit; $sql");
	# A commit that flushes what there is.
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (1)');
	my ($marked, $records, $images) = split /\|/, $node->safe_psql('postgres',
		"SELECT marked_pages(), records, images FROM index_wal('$since')");
	return ($marked, $records, $images, $out);
}

sub marked
{
	return (run(@_))[0];
}

#
# What a read-only transaction writes
#
my ($all, $records, $images, $out) = run(-1, "BEGIN READ ONLY; $read; COMMIT");
is($out, $rows, 'no limit: result');
cmp_ok($all, '>', 50, 'no limit: all leaf pages have marked entries');
is($images, $all, 'no limit: an image of each in the WAL');

(my $marked, $records, $images, $out) = run(0, "BEGIN READ ONLY; $read; COMMIT");
is($out, $rows, '0: result');
is($marked, 0, '0: no marked entries');
is($records, 0, '0: no WAL about the index');

($marked, $records, $images, $out) = run(2, "BEGIN READ ONLY; $read; COMMIT");
is($out, $rows, '2: result');
is($marked, 2, '2: marked entries on two pages');
is($images, 2, '2: two images');
is($records, 2, '2: nothing else');

is(marked(1000000, $read), $all, 'limit above the number of pages');
is(marked(0, $read), 0, '0 in a transaction that could write');
is(marked(0, "$read; $read; $read"), 0, '0, repeated');
is(marked(2, "$read; $read; $read"), 6, '2, repeated: each scan by itself');

#
# Kinds of scan
#
my $backward = 'SELECT k FROM t WHERE k > 0 ORDER BY k DESC';
like($node->safe_psql('postgres', "$by_index EXPLAIN (COSTS OFF) $backward"),
	qr/Index Scan Backward using t_k/, 'plan: backward');
is(marked(-1, $backward), $all, 'backward: no limit');
is(marked(0, $backward), 0, 'backward: 0');
is(marked(2, $backward), 2, 'backward: 2');

my $index_only = 'SET enable_indexonlyscan = on; SELECT k FROM t WHERE k > 0';
like($node->safe_psql('postgres', $by_index . ($index_only =~ s/SELECT/EXPLAIN (COSTS OFF) SELECT/r)),
	qr/Index Only Scan using t_k/, 'plan: index-only');
is(marked(-1, $index_only), $all, 'index-only: no limit');
is(marked(0, $index_only), 0, 'index-only: 0');
is(marked(2, $index_only), 2, 'index-only: 2');

# The inner side of a nested loop is one scan, begun anew for each outer row.
my $nested = q{
	SELECT count(*) FROM generate_series(0, 19) g
		JOIN t ON t.k BETWEEN g * 1000 + 1 AND g * 1000 + 900
};
my $nested_settings = 'SET enable_material = off; SET enable_memoize = off;';
like($node->safe_psql('postgres', "$by_index $nested_settings EXPLAIN (COSTS OFF) $nested"),
	qr/Nested Loop.*Index Scan using t_k/s, 'plan: nested loop');
is(marked(-1, "$nested_settings $nested"), $all, 'rescans: no limit');
is(marked(0, "$nested_settings $nested"), 0, 'rescans: 0');
is(marked(2, "$nested_settings $nested"), 2, 'rescans: 2 in all');

# A cursor, with the setting changed between fetches, and to and fro.
$marked = marked(-1, q{
	BEGIN;
	DECLARE c CURSOR FOR SELECT k FROM t WHERE k > 0;
	FETCH 5 FROM c;
	SET bunbtree.scan_cleanup_limit = 0;
	FETCH ALL FROM c;
	COMMIT});
cmp_ok($marked, '>', 10, 'cursor: no limit');
cmp_ok($marked, '<', 20, 'cursor: then 0');
is(marked(-1, q{
		BEGIN;
		DECLARE c CURSOR FOR SELECT k FROM t WHERE k > 0;
		FETCH 5 FROM c;
		SET bunbtree.scan_cleanup_limit = 3;
		FETCH ALL FROM c;
		COMMIT}), $marked + 2, 'cursor: no limit, then 3, the current page among them');
is(marked(0, q{
		BEGIN;
		DECLARE c CURSOR FOR SELECT k FROM t WHERE k > 0;
		FETCH 5 FROM c;
		SET bunbtree.scan_cleanup_limit = 3;
		FETCH ALL FROM c;
		COMMIT}), 3, 'cursor: 0, then 3');
is(marked(2, q{
		BEGIN;
		DECLARE c SCROLL CURSOR FOR SELECT k FROM t WHERE k > 0;
		MOVE FORWARD ALL IN c;
		MOVE BACKWARD ALL IN c;
		MOVE FORWARD ALL IN c;
		COMMIT}), 2, 'cursor: 2, to and fro');

# Parallel workers count by themselves.
my $parallel = q{
	SET parallel_setup_cost = 0;
	SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0;
	SET min_parallel_index_scan_size = 0;
	SET max_parallel_workers_per_gather = 2;
	SET parallel_leader_participation = off;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) } . $read;
($marked, $records, $images, $out) = run(-1, $parallel);
like($out, qr/Workers Launched: 2.*Parallel Index Scan using t_k/s, 'plan: parallel');
is($marked, $all, 'parallel: no limit');
is(marked(0, $parallel), 0, 'parallel: 0');
$marked = marked(1, $parallel);
cmp_ok($marked, '>=', 1, 'parallel: 1');
cmp_ok($marked, '<=', 2, 'parallel: 1 a worker');

#
# Who writes is not limited
#
is(marked(0, "BEGIN; INSERT INTO other VALUES (1); $read; COMMIT"), $all,
	'writer: has written before');
is(marked(0, "BEGIN; SAVEPOINT s; INSERT INTO other VALUES (1); $read; COMMIT"), $all,
	'writer: in a subtransaction');
is(marked(0, "BEGIN; INSERT INTO other VALUES (1); SAVEPOINT s; $read; COMMIT"), $all,
	'writer: outside of the subtransaction');
is(marked(0, "BEGIN; SAVEPOINT s; INSERT INTO other VALUES (1); ROLLBACK TO s; $read; COMMIT"),
	$all, 'writer: rolled back to a savepoint');
($marked, $records, $images, $out) =
  run(0, "BEGIN; INSERT INTO other VALUES (1); $parallel; COMMIT");
like($out, qr/Workers Launched: 2/, 'plan: parallel');
is($marked, $all, 'writer: parallel workers know');
is(marked(0, "BEGIN; INSERT INTO other VALUES (1); COMMIT; $read"), 0,
	'writer: not any more in the next transaction');

# Without having come to a row yet.
is(marked(0, 'DELETE FROM t WHERE k > 0 AND v < 0'), $all, 'writer: DELETE');
is(marked(0, 'UPDATE t SET v = 0 WHERE k > 0 AND v < 0'), $all, 'writer: UPDATE');
is(marked(0, 'SELECT * FROM t WHERE k > 0 AND v < 0 FOR UPDATE SKIP LOCKED'), $all,
	'writer: SELECT FOR UPDATE');

#
# With statistics, planning looks at the ends of the index: a scan by itself
#
$start =~ s/(?=DELETE)/ANALYZE t; /;
my $plan = 'EXPLAIN SELECT * FROM t WHERE k < 5';
cmp_ok(marked(-1, $plan), '>', 1, 'planning: no limit');
is(marked(1, $plan), 1, 'planning: 1');
is(marked(0, $plan), 0, 'planning: 0');

is($node->safe_psql('postgres', q{SELECT bunbtree_check('t_k', true, true)}), '',
	'amcheck passes');

$node->stop;
done_testing();
