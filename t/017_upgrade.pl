
# pg_upgrade of databases with bunbtree indexes, operator classes mirrored from
# another extension, and adopted indexes.
#
# BUNBTREE_UPGRADE_FROM		installation of an older server, with bunbtree in it, to
#							upgrade from, besides one of the same version; ".ci/test"
#							names the first server when it tests the second

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $indexes = q{
	SELECT c.relname, amname, pg_get_indexdef(c.oid), string_agg(opcname, ' ' ORDER BY n)
	FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam,
		unnest(indclass) WITH ORDINALITY u(class, n) JOIN pg_opclass o ON o.oid = class
	WHERE c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'bunbtree%'
	GROUP BY c.oid, 1, 2, 3 ORDER BY 1};
my $rows = q{
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT count(name), sum(id), min(email) FROM people WHERE id > 0;
	SELECT count(name) FROM people WHERE email > 'user1@' AND email < 'USER2';
	SELECT count(name) FROM people WHERE lower(name) >= 'n1';
	SELECT count(v) FROM parts WHERE k BETWEEN 0 AND 99999;
	SELECT id FROM people WHERE email = 'USER77@example.ORG'};
my $check = q{
	SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam,
		LATERAL bunbtree_check(c.oid, true, true)
	WHERE amname = 'bunbtree' AND relkind = 'i'};
# Garbage on all leaf pages.
my $churn = q{
	SET enable_indexscan = off; SET enable_bitmapscan = off;
	DO $$
	BEGIN
		FOR round IN 1 .. 5
		LOOP
			INSERT INTO people (name, email)
				SELECT 'x' || i, 'x' || i || '@' || round FROM generate_series(1, 2000) i;
			ROLLBACK;
			UPDATE parts SET k = k;
			COMMIT;
		END LOOP;
	END
	$$;
	SELECT pg_stat_force_next_flush()};

sub upgrade
{
	my ($name, $from) = @_;
	my $old = PostgreSQL::Test::Cluster->new("old_$name",
		$from ? (install_path => $from) : ());
	my $new = PostgreSQL::Test::Cluster->new("new_$name");
	my $major = sub { int($_[0]->config_data('--version') =~ s/^\D*(\d+).*/$1/sr) };
	my ($old_major, $new_major) = ($major->($old), $major->($new));
	my $what = "$old_major to $new_major";

	$old->init(extra => [ '--locale=C', '--encoding=UTF8' ]);
	$new->init(extra => [ '--locale=C', '--encoding=UTF8',
			$old_major < 18 && $new_major >= 18 ? '--no-data-checksums' : () ]);
	$_->append_conf('postgresql.conf', 'autovacuum = off') foreach $old, $new;
	$old->start;
	$old->safe_psql('postgres', q{
		CREATE EXTENSION bunbtree;
		CREATE EXTENSION amcheck;
		CREATE EXTENSION citext;
		SELECT bunbtree_mirror_opclasses();
		CREATE TABLE people (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, email citext);
		CREATE INDEX people_id ON people USING bunbtree (id DESC) WITH (fillfactor = 80, heap_blocks = 5);
		CREATE UNIQUE INDEX people_email ON people USING bunbtree (email) INCLUDE (name);
		CREATE INDEX people_pattern ON people USING bunbtree (email citext_pattern_ops, id);
		CREATE INDEX people_expr ON people USING bunbtree (lower(name)) WHERE id > 0;
		CREATE TABLE parts (k int, v text) PARTITION BY RANGE (k);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
		CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1000) TO (100000);
		CREATE INDEX parts_k ON parts USING bunbtree (k, v);
		INSERT INTO people (name, email)
			SELECT 'N' || i, 'User' || i || '@Example.org' FROM generate_series(1, 2000) i;
		INSERT INTO parts SELECT i, i FROM generate_series(1, 3000) i;
		CREATE DATABASE adopting});
	$old->safe_psql('adopting', q{
		CREATE EXTENSION bunbtree;
		CREATE TABLE t (id int PRIMARY KEY);
		INSERT INTO t SELECT generate_series(1, 1000)});
	# 16 and 17 do not allow it for a primary key.
	my $adopts = !($new_major == 16 || $new_major == 17 || $old_major == 16 || $old_major == 17);
	$old->safe_psql('adopting', q{SELECT bunbtree_adopt('t_pkey')}) if $adopts;
	$old->safe_psql('postgres', $churn);

	# 15.20 marks each column with an option that is for itself alone.  A pg_dump that
	# is older than that, as of 18.6, takes it for a user's, so no table at all can be
	# upgraded to that release.  It is not what is tested here.
	my $marks = q{attoptions::text LIKE '{pg_attver=%}'};
	if ($old_major != $new_major
		&& $old->safe_psql('postgres', "SELECT count(*) > 0 FROM pg_attribute WHERE $marks") eq 't')
	{
		diag "$what: columns have the option pg_attver; removed";
		$old->safe_psql($_, "UPDATE pg_attribute SET attoptions = NULL WHERE $marks")
		  foreach qw(postgres adopting);
	}
	my $indexes_before = $old->safe_psql('postgres', $indexes);
	my $rows_before = $old->safe_psql('postgres', $rows);
	like($indexes_before, qr/people_email\|bunbtree.*citext_ops/, "$what: indexes on the old server");
	like($rows_before, qr/^2000\|2001000\|/, "$what: rows on the old server");
	$old->stop;

	# It writes into the current directory.
	my $dir = $new->basedir;
	chdir $dir or die "chdir: $!";
	command_ok([ 'pg_upgrade', '--no-sync',
			'-d', $old->data_dir, '-D', $new->data_dir,
			'-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'),
			'-s', $new->host, '-p', $old->port, '-P', $new->port ],
		"$what: pg_upgrade");
	$new->start;

	is($new->safe_psql('postgres', $indexes), $indexes_before, "$what: the same indexes");
	is($new->safe_psql('postgres', $rows), $rows_before, "$what: the same rows through them");
	is($new->safe_psql('postgres', $check), 6, "$what: amcheck passes");
	is($new->safe_psql('postgres', $churn . q{;
			SELECT bool_and(entries_deleted > 0) FROM pg_stat_bunbtree
			WHERE indexrelname IN ('people_email', 'people_expr', 'parts_2_k_v_idx')}), "\nt",
		"$what: passes go on");
	is($new->safe_psql('postgres', $rows), $rows_before, "$what: with the right rows");
	is($new->safe_psql('postgres', $check), 6, "$what: and amcheck passes");

	# Is our family still taken for btree's?
	like($new->safe_psql('postgres', q{
			SET enable_seqscan = off; SET enable_bitmapscan = off;
			EXPLAIN (COSTS OFF) SELECT * FROM parts_2 WHERE (k, v) > (2000, '') ORDER BY k, v}),
		qr/Index Only Scan using parts_2_k_v_idx.*Index Cond: \(ROW/s, "$what: keyset plans");
	is($new->safe_psql('postgres', 'SELECT bunbtree_mirror_opclasses()'), 0,
		"$what: no operator class is missing");
	# Support functions that the new server has added to btree.
	is($new->safe_psql('postgres', q{
			SELECT count(*) FROM (
				SELECT f.opfname, p.amproclefttype, p.amprocrighttype, p.amprocnum, p.amproc
				FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
					JOIN pg_am a ON a.oid = f.opfmethod
				WHERE amname = 'btree'
				EXCEPT
				SELECT f.opfname, p.amproclefttype, p.amprocrighttype, p.amprocnum, p.amproc
				FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
					JOIN pg_am a ON a.oid = f.opfmethod
				WHERE amname = 'bunbtree') d}), 0, "$what: no support function is, after that");

	# Mirrored classes are still not members of bunbtree.
	$new->safe_psql('postgres', 'DROP EXTENSION citext CASCADE');
	is($new->safe_psql('postgres', q{SELECT to_regclass('people_id') IS NOT NULL}), 't',
		"$what: citext can be dropped, and no more goes");
	if ($adopts)
	{
		is($new->safe_psql('adopting', q{
				SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 't_pkey';
				SELECT bunbtree_mirror_opclasses();
				SELECT index, adopted FROM bunbtree_readopt() WHERE index = 't_pkey'::regclass;
				INSERT INTO t SELECT generate_series(1001, 3000);
				SET enable_seqscan = off;
				SELECT count(*) FROM t WHERE id > 500}),
			"btree\n0\nt_pkey|t\n2500", "$what: what was adopted is btree, and can be adopted again");
	}
	$new->stop;
	unlike(slurp_file($new->logfile), qr/WARNING: |PANIC: |TRAP: /, "$what: no complaint in the log");
	return;
}

upgrade('same');
if ($ENV{BUNBTREE_UPGRADE_FROM})
{
	upgrade('older', $ENV{BUNBTREE_UPGRADE_FROM});
}
else
{
	diag 'no upgrade from an older server: BUNBTREE_UPGRADE_FROM names none';
}
done_testing();
