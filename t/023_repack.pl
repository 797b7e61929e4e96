
# pg_repack of tables that have bunbtree indexes, while they are written.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
if (!-e $node->config_data('--sharedir') . '/extension/pg_repack.control')
{
	plan skip_all => 'needs pg_repack';
}
$node->init;
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE EXTENSION pg_repack;
	CREATE TABLE bt (id int PRIMARY KEY, k int, v text);
	CREATE INDEX bt_k ON bt (k);
	CREATE TABLE bun (id int PRIMARY KEY, k int, v text);
	CREATE INDEX bun_k ON bun USING bunbtree (k, v DESC NULLS LAST) WITH (fillfactor = 70, heap_blocks = 9);
	CREATE UNIQUE INDEX bun_u ON bun USING bunbtree (id, v text_pattern_ops) INCLUDE (k);
	CREATE INDEX bun_e ON bun USING bunbtree (lower(v)) WHERE k > 5;
	CREATE INDEX bun_adopted ON bun (v);
	SELECT bunbtree_adopt('bun_adopted'), bunbtree_adopt('bun_pkey');
	INSERT INTO bt SELECT i, i % 100, 'v' || i FROM generate_series(1, 3000) i;
	INSERT INTO bun TABLE bt;
	DELETE FROM bt WHERE id % 2 = 0;
	DELETE FROM bun WHERE id % 2 = 0});
my $indexes = q{
	SELECT c.relname, amname, pg_get_indexdef(c.oid), c.relfilenode
	FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
	WHERE indrelid = 'bun'::regclass ORDER BY 1};
my $before = $node->safe_psql('postgres', $indexes);
is(scalar(() = $before =~ /\|bunbtree\|/g), 5, 'bunbtree indexes');

# The same changes of both tables, in one transaction.  Each client has keys of its own:
# what another one commits between two statements would reach the second table only.
my $file = $node->basedir . '/churn.sql';
append_to_file($file, join '', "\\set n 2 * random(1, 2000) + :client_id\nBEGIN;\n", map { qq{
	INSERT INTO $_ VALUES (:n, :n % 100, 'c' || :n) ON CONFLICT (id) DO UPDATE SET k = $_.k + 1;
	DELETE FROM $_ WHERE id = :n + 8;
} } qw(bt bun));
append_to_file($file, "COMMIT;\n");

foreach my $options ([ '-t', 'bun' ], [ '-x', '-t', 'bun' ])
{
	my $churn = IPC::Run::start([ 'pgbench', '-n', '-c', 2, '-t', 1500, '-f', $file,
			'-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \undef, '>', '/dev/null', '2>', '/dev/null');

	$node->command_ok([ 'pg_repack', '-d', 'postgres', @$options ], "pg_repack @$options");
	ok(IPC::Run::finish($churn), 'churn went on meanwhile');

	my $after = $node->safe_psql('postgres', $indexes);
	isnt($after, $before, 'the indexes are new');
	is($after =~ s/\|\d+$//gmr, $before =~ s/\|\d+$//gmr, 'and as they were');
	$before = $after;
	foreach my $index (qw(bun_k bun_u bun_e bun_adopted bun_pkey))
	{
		is($node->safe_psql('postgres', "SELECT bunbtree_check('$index', true, true)"), '',
			"$index: amcheck passes");
	}
	is($node->safe_psql('postgres', q{
			SET enable_seqscan = off;
			SELECT count(*) FROM ((TABLE bt EXCEPT SELECT * FROM bun WHERE k > -1)
				UNION ALL (SELECT * FROM bun WHERE k > -1 EXCEPT TABLE bt)) d}),
		0, 'the rows are those of its twin');
}
$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING: |PANIC: |TRAP: /, 'no complaint in the log');
done_testing();
