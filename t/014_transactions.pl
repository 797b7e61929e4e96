
# Prepared transactions over restarts, unlogged tables and crashes, temporary tables.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
max_prepared_transactions = 10
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck});

# Rows through the index, and amcheck's verdict.  Without "parent", it does not wait
# for prepared transactions.
sub by_index
{
	my ($table, $parent) = @_;

	$parent //= 'true';

	return $node->safe_psql('postgres', qq{
		SET enable_seqscan = off;
		SELECT count(v), sum(k), min(v), max(v) FROM $table WHERE k > 0;
		SELECT bunbtree_check('${table}_k', true, $parent)}) =~ s/\n$//r;
}

sub deleted
{
	my ($table) = @_;

	return $node->safe_psql('postgres',
		"SELECT entries_deleted FROM pg_stat_bunbtree WHERE indexrelname = '${table}_k'");
}

# Rows that come and go on all leaf pages; three out of four are garbage in the end.
# Its own scans do not touch the index.
sub churn
{
	my ($table) = @_;

	$node->safe_psql('postgres', qq{
		SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		DO \$\$
		BEGIN
			FOR round IN 1 .. 4
			LOOP
				INSERT INTO $table SELECT i, 'churn' FROM generate_series(1, 1000) i;
				IF round < 4 THEN
					ROLLBACK;
				ELSE
					COMMIT;
				END IF;
			END LOOP;
			DELETE FROM $table WHERE v = 'churn';
		END
		\$\$});
	return;
}

#
# Two-phase
#
$node->safe_psql('postgres', q{
	CREATE TABLE t (k int, v text) WITH (autovacuum_enabled = off);
	INSERT INTO t SELECT i, 'old' FROM generate_series(1, 1000) i;
	BEGIN;
	CREATE INDEX t_k ON t USING bunbtree (k);
	INSERT INTO t SELECT i, 'aborted' FROM generate_series(1, 1000) i;
	DELETE FROM t WHERE v = 'aborted';
	PREPARE TRANSACTION 'create'});
$node->restart;
$node->safe_psql('postgres', q{COMMIT PREPARED 'create'});
is(by_index('t'), '1000|500500|old|old', 'CREATE INDEX prepared, restart, committed');

$node->safe_psql('postgres', q{
	BEGIN;
	CREATE INDEX t_gone ON t USING bunbtree (v);
	PREPARE TRANSACTION 'create'});
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'create'});
is($node->safe_psql('postgres', q{SELECT to_regclass('t_gone') IS NULL}), 't',
	'CREATE INDEX prepared, crash, rolled back');

# What a prepared transaction has deleted and inserted stays in the index until it
# is clear how it ends, whatever passes do meanwhile, also after a restart.
foreach my $end ('ROLLBACK', 'COMMIT')
{
	foreach my $stop ('fast', 'immediate')
	{
		$node->safe_psql('postgres', q{
			BEGIN;
			DELETE FROM t WHERE k % 2 = 0;
			INSERT INTO t SELECT i, 'new' FROM generate_series(2, 1000, 2) i;
			PREPARE TRANSACTION 'churn'});
		my $before = deleted('t');
		churn('t');
		cmp_ok(deleted('t'), '>', $before, 'passes delete garbage beside a prepared transaction');
		is(by_index('t', 'false') =~ s/\|.*//r, 1000, 'its deletions do not count yet');
		$node->stop($stop);
		$node->start;
		churn('t');
		$node->safe_psql('postgres', "$end PREPARED 'churn'");
		is(by_index('t'), $end eq 'COMMIT' ? '1000|500500|new|old' : '1000|500500|old|old',
			"$stop restart, $end PREPARED: all rows are found");
		churn('t');
		is(by_index('t') =~ s/\|.*//r, 1000, 'and after more churn');
	}
}

# It holds the horizon; what it has aborted is garbage.
$node->safe_psql('postgres', q{
	BEGIN;
	INSERT INTO t SELECT i, 'aborted' FROM generate_series(1, 1000) i;
	PREPARE TRANSACTION 'abort';
	ROLLBACK PREPARED 'abort'});
my $before = deleted('t');
churn('t');
cmp_ok(deleted('t'), '>', $before, 'rows of a prepared transaction that was rolled back can go');
is(by_index('t'), '1000|500500|new|old', 'no others do');

#
# Unlogged
#
$node->safe_psql('postgres', q{
	CREATE UNLOGGED TABLE u (k int, v text) WITH (autovacuum_enabled = off);
	CREATE INDEX u_k ON u USING bunbtree (k);
	INSERT INTO u SELECT i, 'kept' FROM generate_series(1, 1000) i});
churn('u');
$node->restart;
is(by_index('u'), '1000|500500|kept|kept', 'unlogged, clean restart: all rows');
churn('u');
$node->stop('immediate');
$node->start;
is(by_index('u'), '0|||', 'crash: none');
$node->safe_psql('postgres', q{INSERT INTO u SELECT i, 'again' FROM generate_series(1, 1000) i});
churn('u');
cmp_ok(deleted('u'), '>', 0, 'and passes go on');
is(by_index('u'), '1000|500500|again|again', 'with the right rows');
$node->safe_psql('postgres', 'ALTER TABLE u SET LOGGED');
churn('u');
$node->stop('immediate');
$node->start;
is(by_index('u'), '1000|500500|again|again', 'set logged, it outlives a crash');

#
# Temporary.  Passes look at local buffers.
#
my $temporary = $node->safe_psql('postgres', q{
	CREATE TEMPORARY TABLE t1 (k int, v text);
	CREATE INDEX t1_k ON t1 USING bunbtree (k);
	CREATE TEMPORARY TABLE t2 (k int, v text) ON COMMIT DELETE ROWS;
	CREATE INDEX t2_k ON t2 USING bunbtree (k);
	INSERT INTO t1 SELECT i, 'kept' FROM generate_series(1, 1000) i;
	SET enable_seqscan = off;
	DO $$
	BEGIN
		FOR round IN 1 .. 6
		LOOP
			INSERT INTO t1 SELECT i, 'churn' FROM generate_series(1, 1000) i ORDER BY hashint4(i);
			INSERT INTO t2 SELECT i, 'churn' FROM generate_series(1, 1000) i;
			DELETE FROM t1 WHERE v = 'churn';
			COMMIT;
			INSERT INTO t1 SELECT i, 'aborted' FROM generate_series(1, 1000) i ORDER BY hashint4(i);
			ROLLBACK;
		END LOOP;
	END
	$$;
	SELECT entries_deleted > 0 FROM pg_stat_bunbtree WHERE indexrelname = 't1_k';
	SELECT count(v), sum(k) FROM t1 WHERE k > 0;
	SELECT count(v) FROM t2 WHERE k > 0;
	SELECT bunbtree_check('t1_k', true, true), bunbtree_check('t2_k', true, true);
	DISCARD TEMPORARY;
	CREATE TEMPORARY TABLE t1 (k int);
	CREATE INDEX t1_k ON t1 USING bunbtree (k);
	INSERT INTO t1 SELECT generate_series(1, 1000);
	SELECT count(*) FROM t1 WHERE k > 0});
is($temporary, "t\n1000|500500\n0\n|\n1000", 'temporary tables');

$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|PANIC|TRAP/, 'no complaint in the log');
done_testing();
