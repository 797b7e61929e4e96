
# Hostile input: pages corrupted on disk, and functions called with whatever there
# is.  An error with the right code is due, never a crash.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# Checksums would find out first.
if (-e $node->data_dir && `pg_controldata @{[ $node->data_dir ]}` =~ /checksum version:\s+[1-9]/)
{
	system_or_bail('pg_checksums', '--disable', '-D', $node->data_dir);
}
$node->append_conf('postgresql.conf', q{
autovacuum = off
max_prepared_transactions = 2
});
$node->start;

# The error of a statement: code, then what is said.
sub try
{
	my ($sql, %params) = @_;
	my ($rc, $stdout, $stderr) = $node->psql($params{database} // 'postgres',
		"\\set VERBOSITY verbose\n$sql", on_error_stop => 1,
		extra_params => $params{user} ? [ '-U', $params{user} ] : []);

	return $rc == 0 ? "00000 $stdout" : $stderr =~ /(?:ERROR|FATAL|PANIC):  (\w{5}): (.*)/s ? "$1 $2" : $stderr;
}

#
# Pages
#
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE EXTENSION amcheck;
	CREATE EXTENSION pageinspect;
	CREATE EXTENSION pgstattuple});

# Overwrite bytes of a relation's file while the server is down.
sub edit
{
	my ($path, $offset, $bytes) = @_;
	my $file = $node->data_dir . "/$path";

	open my $fh, '+<', $file or die "$file: $!";
	binmode $fh;
	seek $fh, $offset, 0 or die $!;
	print $fh $bytes;
	close $fh or die $!;
	return;
}

sub read_page
{
	my ($path, $blkno) = @_;
	my $file = $node->data_dir . "/$path";
	my $page;

	open my $fh, '<', $file or die "$file: $!";
	binmode $fh;
	seek $fh, 8192 * $blkno, 0 or die $!;
	read($fh, $page, 8192) == 8192 or die 'short read';
	close $fh;
	return $page;
}

# A table, and an index of a single leaf page (block 1) with 350 entries; entry n
# points to row n.  Two thirds of the rows are dead.
sub create
{
	my ($table) = @_;

	$node->safe_psql('postgres', qq{
		CREATE TABLE $table (k int, v text) WITH (autovacuum_enabled = off);
		CREATE INDEX ${table}_k ON $table USING bunbtree (k);
		INSERT INTO $table SELECT i, 'row' FROM generate_series(1, 350) i;
		DELETE FROM $table WHERE k % 3 > 0;
		CHECKPOINT});
	return $node->safe_psql('postgres', "SELECT pg_relation_filepath('${table}_k')");
}

# An insertion that fills the page, so that a pass is made; other passes follow.
sub fill
{
	my ($table) = @_;

	return qq{
		SET bunbtree.io = 'any'; SET bunbtree.heap_blocks = 1400;
		INSERT INTO $table SELECT i, 'new' FROM generate_series(1, 350) i};
}

my %path = map { $_ => create($_) } qw(sound item beyond nowhere special zero);

# Sparse leaf pages, in the order of their keys: path, root and leaf pages.
sub create_sparse
{
	my ($table) = @_;

	$node->safe_psql('postgres', qq{
		CREATE TABLE $table (k int) WITH (autovacuum_enabled = off);
		INSERT INTO $table SELECT generate_series(1, 5000);
		CREATE INDEX ${table}_k ON $table (k);
		DELETE FROM $table WHERE k % 10 > 0;
		VACUUM $table;
		CHECKPOINT});
	my $root = $node->safe_psql('postgres', "SELECT root FROM bt_metap('${table}_k')");
	my @leaves = split /\n/, $node->safe_psql('postgres',
		"SELECT (ctid::text::point)[0]::int FROM bt_page_items('${table}_k', $root)");

	cmp_ok(scalar(@leaves), '>', 5, 'leaf pages');
	return ($node->safe_psql('postgres', "SELECT pg_relation_filepath('${table}_k')"), $root, @leaves);
}

my ($twice, $root, @leaves) = create_sparse('twice');
my ($links, undef, @linked) = create_sparse('links');
my ($old) = create_sparse('old');
my ($circle, $circle_root) = create_sparse('circle');
my ($barren, $barren_root) = create_sparse('barren');
$node->stop;

# TIDs of entries: an item that their heap page has not, blocks that the heap has not.
foreach my $table (qw(item beyond nowhere))
{
	my $page = read_page($path{$table}, 1);

	foreach my $n (0 .. 349)
	{
		my $entry = unpack('V', substr($page, 24 + 4 * $n, 4)) & 0x7fff;
		my ($high, $low) = unpack('vv', substr($page, $entry, 4));

		edit($path{$table}, 8192 + $entry, pack('vvv', @{
			{   item => [ $high, $low, 1000 + $n ],
				beyond => [ 0, 1000 + $n, 1 ],
				nowhere => [ 0xffff, 0xfffe, 1 + $n ] }->{$table} }));
	}
}
# A leaf page without the space for what nbtree wants to know of it; one of zeroes.
edit($path{special}, 8192 + 16, pack('v', 8192 - 8));
edit($path{zero}, 8192, "\0" x 8192);
# A parent that leads to the second leaf page twice, and a fourth one that takes it for
# its neighbour.
my $third = unpack('V', substr(read_page($twice, $root), 24 + 4 * 2, 4)) & 0x7fff;
edit($twice, 8192 * $root + $third, pack('vv', 0, $leaves[1]));
edit($twice, 8192 * ($leaves[3] + 1) - 16, pack('V', $leaves[1]));
# A leaf page whose right sibling does not know of it.
edit($links, 8192 * ($linked[2] + 1) - 12, pack('V', $linked[4]));
# Parents of leaf pages that are their own right siblings, with downlinks and without.
edit($circle, 8192 * ($circle_root + 1) - 12, pack('V', $circle_root));
edit($barren, 8192 * ($barren_root + 1) - 12, pack('V', $barren_root));
edit($barren, 8192 * $barren_root + 12, pack('v', 24));
# A metapage that says that this is an index of PostgreSQL 11.
edit($old, 24 + 4, pack('V', 3));
$node->start;

my $read = sub { "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM $_[0] WHERE k > 0" };
my $verify = sub { "SELECT bunbtree_check('$_[0]_k', true, true)" };

like(try(fill('sound')), qr/^00000/, 'a sound index');
like(try(fill('item')),
	qr/^XX002 heap tid from index tuple \(\d,1\d\d\d\) points past end of heap page line pointer array at offset \d+ of block 1 in index "item_k"/,
	'TIDs without a row: the pass says where');
foreach my $table (qw(beyond nowhere))
{
	# Block 4294967294 would be in a file that is not there.
	my $error = qr/^(XX001 could not read block|(XX000|58P01) could not open file)/;

	like(try(fill($table)), $error, "TIDs $table in the heap: a pass cannot read it");
	like(try($read->($table)), $error, 'nor can a scan');
}
foreach my $table (qw(special zero))
{
	my $error = qr/^XX002 index "${table}_k" contains (corrupted|unexpected zero) page at block 1.*HINT:  Please REINDEX it/s;

	like(try(fill($table)), $error, "$table: an insertion finds the page corrupted");
	like(try($read->($table)), $error, 'a scan does');
	# VACUUM takes a page of zeroes for one that has never been used.
	like(try("VACUUM $table"), $table eq 'zero' ? qr/^00000/ : $error, 'so does VACUUM');
	like(try($verify->($table)), qr/^XX00[12]/, 'so does amcheck');
}

like(try("CALL bunbtree_compact('twice_k')"),
	qr/^XX002 block $leaves[1] of index "twice_k" is linked to twice.*HINT:  Please REINDEX it/s,
	'compaction does not lock a page twice');
like(try("CALL bunbtree_compact('links_k')"),
	qr/^XX002 block $linked[2] of index "links_k" is not what its parent and siblings say.*HINT:  Please REINDEX it/s,
	'nor does it merge pages that are no neighbours');
like(try("CALL bunbtree_compact('old_k')"),
	qr/^0A000 cannot compact "old_k": its format is from before PostgreSQL 12.*HINT:  REINDEX it/s,
	'nor any of an old format');
foreach my $call ('SELECT bunbtree_compact_estimate(%s)', 'CALL bunbtree_compact(%s)', 'SELECT bunbtree_index_info(%s)')
{
	my $statement = sub { "SET statement_timeout = '60s'; " . sprintf($call, "'$_[0]'") };

	like(try($statement->('circle_k')),
		qr/^XX002 right links of index "circle_k" lead from block $circle_root to itself.*HINT:  Please REINDEX it/s,
		"$call does not run in circles");
	like(try($statement->('barren_k')),
		qr/^XX002 block $barren_root of index "barren_k" has no downlinks.*HINT:  Please REINDEX it/s,
		'nor where there are no leaf pages');
}
foreach my $table (qw(twice links old circle barren))
{
	like(try(qq{
			REINDEX INDEX ${table}_k;
			CALL bunbtree_compact('${table}_k');
			SELECT bt_index_parent_check('${table}_k', true, true)}),
		qr/^00000/, "$table: REINDEX mends it");
}

# A session goes on after such an error; REINDEX mends it all.
foreach my $table (sort keys %path)
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query(fill($table));
	$session->{stderr} = '';
	is($session->query("INSERT INTO sound VALUES (1000, 'on'); DELETE FROM sound WHERE k = 1000; SELECT 1"),
		'1', "$table: the session goes on");
	is($session->{stderr}, '', 'without an error');
	$session->quit;
	is(try("REINDEX INDEX ${table}_k; " . fill($table) . '; ' . $verify->($table)), '00000 ',
		'REINDEX mends it');
	like(try($read->($table)), qr/^00000 [1-9]/, 'and rows are found');
}

#
# Functions
#
# What there is in pg_class, of every kind.
$node->safe_psql('postgres', q{
	CREATE ROLE nobody_special LOGIN;
	CREATE TABLE tab (k int PRIMARY KEY, v text);
	CREATE INDEX ours ON tab USING bunbtree (k);
	CREATE INDEX theirs ON tab (k);
	CREATE INDEX hash ON tab USING hash (k);
	CREATE VIEW view AS TABLE tab;
	CREATE MATERIALIZED VIEW matview AS TABLE tab;
	CREATE SEQUENCE seq;
	CREATE TYPE composite AS (k int);
	CREATE TABLE part (k int) PARTITION BY RANGE (k);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
	CREATE INDEX part_ours ON part USING bunbtree (k);
	CREATE INDEX part_theirs ON part USING btree (k);
	CREATE FOREIGN DATA WRAPPER fdw;
	CREATE SERVER srv FOREIGN DATA WRAPPER fdw;
	CREATE FOREIGN TABLE foreign_table (k int) SERVER srv;
	INSERT INTO tab VALUES (1, 'a'), (2, 'a');
	CREATE DATABASE elsewhere});
# An index that is not valid, a temporary one of another session, another database's.
$node->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY invalid ON tab USING bunbtree (v)');
my $other = $node->background_psql('postgres');
$other->query_safe('CREATE TEMPORARY TABLE temp (k int); CREATE INDEX temp_ours ON temp USING bunbtree (k)');
my $temporary = $other->query_safe(q{SELECT 'temp_ours'::regclass::oid});
$node->safe_psql('elsewhere', q{CREATE TABLE far (k int); CREATE INDEX far_k ON far (k)});
my $far = $node->safe_psql('elsewhere', q{SELECT 'far_k'::regclass::oid});
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE oid = $far"), 0,
	'an OID of another database');
my %object = (
	(map { split /\|/ } split /\n/, $node->safe_psql('postgres', q{
		SELECT relname, oid FROM pg_class WHERE relname IN ('tab', 'ours', 'theirs', 'tab_pkey', 'hash',
			'view', 'matview', 'seq', 'composite', 'part', 'part_ours', 'part_theirs',
			'foreign_table', 'invalid', 'pg_class', 'pg_class_oid_index')
		UNION ALL
		SELECT 'toast', reltoastrelid FROM pg_class WHERE relname = 'tab'
		UNION ALL
		SELECT 'toast_index', indexrelid FROM pg_class c JOIN pg_index ON indrelid = reltoastrelid
		WHERE c.relname = 'tab'
		UNION ALL
		SELECT 'function', oid FROM pg_proc WHERE proname = 'bunbtree_adopt'})),
	temporary => $temporary,
	far => $far,
	zero => 0,
	highest => 4294967295,
	null => 'NULL');
is(scalar(keys %object), 24, 'objects of all kinds');

# Do it, and undo it; return the SQLSTATE.
$node->safe_psql('postgres', q{
	CREATE FUNCTION try(what text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE what;
		RAISE EXCEPTION USING ERRCODE = '00OK0';
	EXCEPTION WHEN OTHERS THEN
		RETURN replace(sqlstate, '00OK0', 'done');
	END
	$$});

# SQLSTATEs of some calls, as "name=code ..."; those that were made in vain, because
# the object is of the wrong kind, are left out.
sub outcomes
{
	my ($role, %calls) = @_;
	my $sql = "SET client_min_messages = error; SET ROLE $role;\n";

	$sql .= "SELECT \$\$$_=\$\$ || try(\$\$SELECT * FROM $calls{$_}\$\$);\n" foreach sort keys %calls;
	return join ' ', grep { !/=42809$/ } split /\n/, $node->safe_psql('postgres', $sql);
}

sub calls
{
	my ($function) = @_;

	return map { $_ => sprintf($function, $object{$_} eq 'NULL' ? 'NULL' : "$object{$_}::oid") } keys %object;
}

# Each function that takes a relation: what it says to a superuser, and to a role
# without privileges, where that is not "permission denied" to all.
my $none = join ' ', map { "$_=42704" } qw(far function highest);
my $all = join ' ', map { "$_=done" } sort keys %object;
# What pageinspect says of a block that is not there depends on its version.
my $no_block = outcomes('NONE', it => q{bt_page_items('theirs', 100)}) =~ s/it=//r;
my $readable = 'null=done ours=done pg_class_oid_index=done tab_pkey=done temporary=0A000 theirs=done';
my %functions = (
	'bunbtree_check(%s)' => ["$none invalid=0A000 null=done ours=done temporary=0A000 zero=42704"],
	'bunbtree_check(%s, true, true)' =>
	  ["$none invalid=0A000 null=done ours=done temporary=0A000 zero=42704"],
	'bunbtree_compact_estimate(%s)' => [
		"$none invalid=55000 null=done ours=done pg_class_oid_index=0A000 tab_pkey=done temporary=0A000 "
		  . 'theirs=done toast_index=done zero=42704',
		"$none invalid=55000 ours=42501 pg_class_oid_index=0A000 tab_pkey=42501 temporary=0A000 "
		  . 'theirs=42501 toast_index=42501 zero=42704' ],
	'bunbtree_index_info(%s)' => ["$none invalid=55000 $readable toast_index=done zero=42704"],
	'bunbtree_page_items(%s, 1)' => ["$none invalid=$no_block $readable toast_index=$no_block zero=42704"],
	'pg_stat_reset_bunbtree(%s)' =>
	  ["$none invalid=done null=done ours=done temporary=done zero=42704"],
	'bunbtree_adopt(%s)' => [
		"$none invalid=done null=done ours=done part_ours=done part_theirs=done pg_class_oid_index=42501 "
		  . 'tab_pkey=done temporary=done theirs=done toast_index=0A000 zero=42704',
		"$none invalid=42501 ours=42501 part_ours=42501 part_theirs=42501 pg_class_oid_index=42501 "
		  . 'tab_pkey=42501 temporary=42501 theirs=42501 toast_index=0A000 zero=42704' ],
	# What is btree already stays as it is.
	'bunbtree_release(%s)' => [
		"$none invalid=55000 null=done ours=done part_ours=done part_theirs=done pg_class_oid_index=done "
		  . 'tab_pkey=done temporary=0A000 theirs=done toast_index=done zero=42704',
		"$none invalid=55000 ours=42501 part_ours=42501 part_theirs=42501 pg_class_oid_index=42501 "
		  . 'tab_pkey=42501 temporary=0A000 theirs=42501 toast_index=42501 zero=42704' ],
	'bunbtree_adopt_table(%s)' => [
		'far=42P01 function=42P01 highest=42P01 matview=done null=done part=done pg_class=42501 '
		  . 'tab=done zero=42P01',
		'far=42P01 function=42P01 highest=42P01 matview=42501 part=42501 pg_class=42501 '
		  . 'tab=42501 zero=42P01' ],
	# It tells why not.
	'bunbtree_adopt_refusal(%s)' => [ $all, $all =~ s/null=done //r ],
);
my $denied = join ' ', map { "$_=42501" } grep { $_ ne 'null' } sort keys %object;
foreach my $function (sort keys %functions)
{
	my ($superuser, $nobody) = @{ $functions{$function} };
	my %calls = calls($function);

	is(outcomes('NONE', %calls), $superuser, "$function, called with all there is");
	# Without an argument, it is not called at all.
	delete $calls{null};
	is(outcomes('nobody_special', %calls), $nobody // $denied, "$function, without privileges");
}

# All others, and other arguments.
my %others = (
	a1 => [ 'bunbtree_counters()', 'done', 'done' ],
	a2 => [ 'pg_stat_bunbtree', 'done', 'done' ],
	a3 => [ 'bunbtree_horizon_holders', 'done', 'done' ],
	a4 => [ 'bunbtree_candidates', 'done', '42501' ],
	a5 => [ 'bunbtree_compact_progress()', 'done', 'done' ],
	a6 => [ 'bunbtree_progress_compact', 'done', 'done' ],
	b1 => [ 'bunbtree_readopt()', 'done', '42501' ],
	b2 => [ 'pg_stat_reset_bunbtree()', 'done', '42501' ],
	c1 => [ 'bunbtree_mirror_opclasses()', 'done', '42501' ],
	c2 => [ q{bunbtree_mirror_opclasses('{}')}, 'done', '42501' ],
	c3 => [ q{bunbtree_mirror_opclasses('{{integer},{text}}')}, 'done', '42501' ],
	c4 => [ 'bunbtree_mirror_opclasses(ARRAY[NULL::regtype])', '22004', '42501' ],
	c5 => [ 'bunbtree_mirror_opclasses(ARRAY[0::regtype])', '42704', '42501' ],
	c6 => [ 'bunbtree_mirror_opclasses(ARRAY[4294967295::oid::regtype])', '42704', '42501' ],
	c7 => [ q{bunbtree_mirror_opclasses('{point}')}, '42704', '42501' ],
	d1 => [ 'bunbtree_handler(NULL)', '42883', '42883' ],
	d2 => [ 'bunbtree_handler(0)', '42883', '42883' ],
	e => [ q{bunbtree_page_items('ours', 2)}, $no_block, '42501' ],
	(map {
		("e$_" => [ "bunbtree_page_items('ours', $_)", '22023', '42501' ])
	} -1, 0, 4294967295, 4294967296, 9223372036854775807));
my %others_calls = map { $_ => $others{$_}[0] } keys %others;
foreach my $who ([ 'NONE', 1 ], [ 'nobody_special', 2 ])
{
	my ($role, $column) = @$who;

	is(outcomes($role, %others_calls),
		join(' ', map { "$_=$others{$_}[$column]" } sort keys %others),
		"other functions, as $role");
}

# A procedure that commits: it cannot be undone, and outcomes() cannot call it.
sub compaction_outcomes
{
	my ($role) = @_;
	my $sql = "SET client_min_messages = error;\nSET ROLE $role;\n";

	$sql .= "CALL bunbtree_compact($object{$_}, max_runtime => '0');\n\\echo $_=:SQLSTATE\n"
	  foreach sort keys %object;
	$node->psql('postgres', $sql, stdout => \my $stdout, on_error_stop => 0);
	return join ' ', grep { !/=42809$/ } split /\n/, $stdout;
}

is(compaction_outcomes('NONE'),
	"$none invalid=55000 null=22004 ours=00000 pg_class_oid_index=0A000 tab_pkey=00000 temporary=0A000 "
	  . 'theirs=00000 toast_index=00000 zero=42704',
	'bunbtree_compact(), called with all there is');
is(compaction_outcomes('nobody_special'),
	"$none invalid=55000 null=22004 ours=42501 pg_class_oid_index=0A000 tab_pkey=42501 temporary=0A000 "
	  . 'theirs=42501 toast_index=42501 zero=42704',
	'bunbtree_compact(), without privileges');

# Is there any more?
my %covered = map { /^(\w+)\(/ ? ($1 => 1) : () } keys %functions, values %others_calls;
$covered{bunbtree_compact} = 1;
is(join(' ', grep { !$covered{$_} } split /\n/, $node->safe_psql('postgres', q{
		SELECT proname FROM pg_depend JOIN pg_proc p ON p.oid = objid
		WHERE classid = 'pg_proc'::regclass AND refclassid = 'pg_extension'::regclass
			AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'bunbtree')})),
	'', 'each function of the extension was called');

# Whoever may create functions and operators in the extension's schema, before it is
# there, has none of them called.  These would match better than what is meant.
$node->safe_psql('postgres', 'CREATE DATABASE trapped; CREATE ROLE mallory');
$node->safe_psql('trapped', q{
	GRANT CREATE ON SCHEMA public TO mallory;
	SET ROLE mallory;
	CREATE FUNCTION trap() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
	CREATE FUNCTION bunbtree_adopt_refusal(oid) RETURNS text LANGUAGE sql AS $$ SELECT trap()::text $$;
	CREATE FUNCTION ln(real) RETURNS real LANGUAGE sql AS $$ SELECT trap()::text::real $$;
	CREATE FUNCTION greater(real, integer) RETURNS boolean LANGUAGE sql AS $$ SELECT trap()::text::boolean $$;
	CREATE OPERATOR > (FUNCTION = greater, LEFTARG = real, RIGHTARG = integer);
	CREATE FUNCTION minus(numeric, integer) RETURNS numeric LANGUAGE sql AS $$ SELECT trap()::text::numeric $$;
	CREATE OPERATOR - (FUNCTION = minus, LEFTARG = numeric, RIGHTARG = integer);
	RESET ROLE;
	CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 1000) i;
	CREATE INDEX t_k ON t (k);
	ANALYZE t;
	CREATE EXTENSION bunbtree});
like(try(q{SELECT fresh_size > 0, refusal IS NULL FROM bunbtree_candidates WHERE relname = 't'}, database => 'trapped'),
	qr/^00000 t\|t$/, 'the view calls nobody else\'s functions');

# Partitions that are detached while somebody asks whether their indexes could be adopted.
$node->safe_psql('postgres', q{
	CREATE TABLE moving (k int) PARTITION BY RANGE (k);
	CREATE TABLE moving_1 PARTITION OF moving FOR VALUES FROM (0) TO (10);
	CREATE INDEX moving_k ON moving (k)});
my $asking = $node->background_psql('postgres', on_error_stop => 0);
$asking->query_until(qr/asking/, q{
	\echo asking
	DO $$
	BEGIN
		WHILE NOT EXISTS (SELECT FROM pg_class WHERE relname = 'moved') LOOP
			FOR i IN 1 .. 1000 LOOP
				PERFORM bunbtree_adopt_refusal('moving_1_k_idx');
			END LOOP;
		END LOOP;
	END
	$$;
});
$node->safe_psql('postgres', q{
	DO $$
	BEGIN
		FOR i IN 1 .. 1000 LOOP
			ALTER TABLE moving DETACH PARTITION moving_1;
			COMMIT;
			ALTER TABLE moving ATTACH PARTITION moving_1 FOR VALUES FROM (0) TO (10);
			COMMIT;
		END LOOP;
	END
	$$;
	CREATE TABLE moved ()});
is($asking->query('SELECT 1'), 1, 'an index that is being detached');
$asking->quit;

$other->quit;
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC: |TRAP: |terminated by signal/, 'no crash');
done_testing();
