
# Operator classes of other extensions: who owns the copies, what pg_dump makes
# of them, and what goes when an extension goes.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;

my %available = map { $_ => 1 } split /\n/,
  $node->safe_psql('postgres', 'SELECT name FROM pg_available_extensions');
plan skip_all => 'needs the extension citext'
  unless $available{citext};

# Operator classes of bunbtree that initdb did not create, and whether they are
# members of an extension.
my $foreign_classes = q{
	SELECT opcname, count(d.objid)
	FROM pg_opclass c
		JOIN pg_am a ON a.oid = c.opcmethod
		LEFT JOIN pg_depend d ON d.classid = 'pg_opclass'::regclass
			AND d.objid = c.oid AND d.deptype = 'e'
	WHERE amname = 'bunbtree' AND opcnamespace <> 'pg_catalog'::regnamespace
	GROUP BY opcname ORDER BY opcname};

my $index_definitions = q{
	SELECT pg_get_indexdef(i.indexrelid), array_agg(opcname ORDER BY ord)
	FROM pg_index i
		JOIN pg_class r ON r.oid = i.indexrelid
		JOIN pg_am a ON a.oid = r.relam,
		unnest(i.indclass) WITH ORDINALITY AS u(opclass, ord)
		JOIN pg_opclass c ON c.oid = u.opclass
	WHERE amname = 'bunbtree'
	GROUP BY 1 ORDER BY 1};

# What only one of btree and bunbtree has.
my $differences = q{
	WITH have AS (
		SELECT a.amname, concat_ws(' ', 'class', c.opcnamespace, c.opcname,
				f.opfname, c.opcintype, c.opcdefault, c.opckeytype,
				c.opcowner) AS item
		FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
			JOIN pg_opfamily f ON f.oid = c.opcfamily
		UNION ALL
		SELECT a.amname, concat_ws(' ', 'operator', f.opfnamespace, f.opfname,
				o.amoplefttype, o.amoprighttype, o.amopstrategy, o.amopopr)
		FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
			JOIN pg_am a ON a.oid = f.opfmethod
		UNION ALL
		SELECT a.amname, concat_ws(' ', 'function', f.opfnamespace, f.opfname,
				p.amproclefttype, p.amprocrighttype, p.amprocnum, p.amproc)
		FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
			JOIN pg_am a ON a.oid = f.opfmethod
	)
	SELECT item FROM have WHERE amname IN ('btree', 'bunbtree')
	GROUP BY item HAVING count(*) <> 2 ORDER BY item};

sub create_tables
{
	my $db = shift;

	$node->safe_psql(
		$db, q{
		CREATE TABLE people (id integer, email citext, nick text);
		INSERT INTO people
			SELECT i, 'User' || i || '@Example.org', 'n' || i
			FROM generate_series(1, 1000) i;
		CREATE UNIQUE INDEX people_email ON people USING bunbtree (email);
		CREATE INDEX people_pattern ON people
			USING bunbtree ((nick::citext) citext_pattern_ops, id DESC);
		CREATE INDEX people_id ON people USING bunbtree (id);
		CREATE INDEX people_nick ON people USING bunbtree (lower(nick));
		ANALYZE people});
	return;
}

# The index finds what citext calls equal, and keeps it unique.
sub check_citext_index
{
	my ($db, $what) = @_;

	is( $node->safe_psql(
			$db, q{
			SET enable_seqscan = off;
			SET enable_bitmapscan = off;
			SELECT id FROM people WHERE email = 'USER42@EXAMPLE.ORG'}),
		'42',
		"$what: citext is compared without regard to case");
	like(
		$node->safe_psql(
			$db, q{
			SET enable_seqscan = off;
			SET enable_bitmapscan = off;
			EXPLAIN SELECT id FROM people WHERE email = 'USER42@EXAMPLE.ORG'}),
		qr/Index Scan using people_email/,
		"$what: by the index");
	my ($rc, $stdout, $stderr) = $node->psql($db,
		q{INSERT INTO people VALUES (0, 'uSER42@example.ORG')});
	like(
		$stderr,
		qr/duplicate key value violates unique constraint "people_email"/,
		"$what: unique without regard to case");
	return;
}

#
# citext is there before bunbtree, and after it.
#
$node->safe_psql('postgres', 'CREATE DATABASE before');
$node->safe_psql('postgres', 'CREATE DATABASE after');

$node->safe_psql('before', 'CREATE EXTENSION citext');
$node->safe_psql('before', 'CREATE EXTENSION bunbtree');
is($node->safe_psql('before', $foreign_classes),
	'', 'CREATE EXTENSION leaves classes of other extensions alone');

# That is why mirroring comes before the first index: a type of another
# extension may have a relative among the built-in ones, and gets its class.
is( $node->safe_psql(
		'before', q{
		BEGIN;
		CREATE TABLE t (c citext);
		CREATE INDEX ON t USING bunbtree (c);
		SELECT opcname FROM pg_index JOIN pg_opclass c ON c.oid = indclass[0]
			WHERE indrelid = 't'::regclass;
		ROLLBACK}),
	'text_ops',
	'a citext column gets the class of text as long as it has none');

$node->safe_psql('after', 'CREATE EXTENSION bunbtree');
$node->safe_psql('after', 'CREATE EXTENSION citext');

foreach my $db ('before', 'after')
{
	is($node->safe_psql($db, 'SELECT bunbtree_mirror_opclasses()'),
		'2', "$db: classes of citext are mirrored");
	is($node->safe_psql($db, 'SELECT bunbtree_mirror_opclasses()'),
		'0', "$db: once");
	is($node->safe_psql($db, $foreign_classes),
		"citext_ops|0\ncitext_pattern_ops|0",
		"$db: as members of no extension");
	create_tables($db);
	check_citext_index($db, $db);
}

#
# Dump and restore: plainly, and with parallel jobs, which rely on the order
# that dependencies give.
#
my %restore = (
	before => sub {
		my $file = "$PostgreSQL::Test::Utils::tmp_check/before.sql";

		$node->command_ok([ 'pg_dump', '-f', $file, 'before' ],
			'before: pg_dump');
		$node->command_ok(
			[
				'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1',
				'-d', 'before_restored', '-f', $file
			],
			'before: restore by psql');
		return $file;
	},
	after => sub {
		my $file = "$PostgreSQL::Test::Utils::tmp_check/after.dump";
		my $script = "$PostgreSQL::Test::Utils::tmp_check/after.sql";

		$node->command_ok([ 'pg_dump', '-Fc', '-f', $file, 'after' ],
			'after: pg_dump -Fc');
		$node->command_ok(
			[
				'pg_restore', '--exit-on-error',
				'-j', '2', '-d', 'after_restored', $file
			],
			'after: pg_restore -j 2');
		$node->command_ok([ 'pg_restore', '-f', $script, $file ],
			'after: dump as a script');
		return $script;
	});

foreach my $db ('before', 'after')
{
	my $restored = "${db}_restored";

	$node->safe_psql('postgres', "CREATE DATABASE $restored");
	my $dump = slurp_file($restore{$db}->());

	unlike(
		$dump,
		qr/OPERATOR (CLASS|FAMILY) pg_catalog\./,
		"$db: no built-in class in the dump");
	like(
		$dump,
		qr/CREATE OPERATOR CLASS public\.citext_ops\s+DEFAULT FOR TYPE public\.citext USING bunbtree/,
		"$db: citext's class is in the dump");

	is( $node->safe_psql($restored, $index_definitions),
		$node->safe_psql($db, $index_definitions),
		"$db: same indexes after restore");
	is( $node->safe_psql($restored, $foreign_classes),
		$node->safe_psql($db, $foreign_classes),
		"$db: same classes after restore");
	is($node->safe_psql($restored, $differences),
		'', "$db: no difference from btree after restore");
	check_citext_index($restored, $restored);
	is($node->safe_psql($restored, 'SELECT bunbtree_mirror_opclasses()'),
		'0', "$db: nothing left to mirror after restore");
}

#
# Dropping citext takes its own indexes along, and nothing else.
#
my ($rc, $stdout, $stderr) = $node->psql('before', 'DROP EXTENSION citext');
like(
	$stderr,
	qr/cannot drop extension citext because other objects depend on it/,
	'citext cannot be dropped under a bunbtree index');
$node->safe_psql('before', 'DROP EXTENSION citext CASCADE');
is( $node->safe_psql(
		'before', q{SELECT extname FROM pg_extension
					WHERE extname IN ('bunbtree', 'citext')}),
	'bunbtree',
	'bunbtree outlives citext');
is( $node->safe_psql(
		'before', q{SELECT indexrelid::regclass FROM pg_index
					WHERE indrelid = 'people'::regclass ORDER BY 1::text}),
	"people_id\npeople_nick",
	'and so do indexes on other types');
is($node->safe_psql('before', $foreign_classes),
	'', 'the classes of citext are gone');
is( $node->safe_psql(
		'before', q{
		SET enable_seqscan = off;
		SET enable_bitmapscan = off;
		INSERT INTO people (id, nick) VALUES (2000, 'NEW');
		SELECT id FROM people WHERE lower(nick) = 'new'}),
	'2000',
	'the remaining indexes work');

# It can come back, though its families were left behind empty.
$node->safe_psql('before', 'CREATE EXTENSION citext');
is($node->safe_psql('before', 'SELECT bunbtree_mirror_opclasses()'),
	'2', 'classes of a new citext are mirrored');
is($node->safe_psql('before', $differences),
	'', 'and are what btree has');

#
# Dropping bunbtree.
#
($rc, $stdout, $stderr) = $node->psql('after', 'DROP EXTENSION bunbtree');
like(
	$stderr,
	qr/cannot drop extension bunbtree because other objects depend on it/,
	'bunbtree cannot be dropped under its indexes');
like($stderr, qr/index people_email depends on/, 'which are named');
$node->safe_psql('after', 'DROP EXTENSION bunbtree CASCADE');
is( $node->safe_psql(
		'after', q{SELECT count(*) FROM pg_index
				   WHERE indrelid = 'people'::regclass}),
	'0',
	'CASCADE removes the indexes');
is($node->safe_psql('after', 'SELECT count(*) FROM people'),
	'1000', 'but not the table');
is( $node->safe_psql(
		'after', q{SELECT count(*) FROM pg_opfamily f
				   LEFT JOIN pg_am a ON a.oid = f.opfmethod
				   WHERE a.oid IS NULL}),
	'0',
	'no operator family is left without an access method');

#
# Whatever else is there, the copies are what btree has.
#
my @others = grep { $available{$_} }
  qw(citext cube hstore isn ltree seg btree_gin btree_gist);
$node->safe_psql('postgres', 'CREATE EXTENSION bunbtree');
$node->safe_psql('postgres', "CREATE EXTENSION $_") foreach @others;
isnt($node->safe_psql('postgres', $differences),
	'', 'with other extensions, btree has more');
cmp_ok($node->safe_psql('postgres', 'SELECT bunbtree_mirror_opclasses()'),
	'>', 0, 'until mirrored');
is($node->safe_psql('postgres', $differences),
	'', "no difference from btree with @others");
is( $node->safe_psql(
		'postgres', q{
		SELECT c.opcname
		FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod,
			pg_opclass b JOIN pg_am ba ON ba.oid = b.opcmethod
		WHERE a.amname = 'bunbtree' AND ba.amname = 'btree'
			AND c.opcname = b.opcname AND c.opcnamespace = b.opcnamespace
			AND amvalidate(c.oid) <> amvalidate(b.oid)}),
	'',
	'and the same validity');

#
# Concurrent calls wait for one another, whatever their isolation level: one of
# them creates the classes, the others find them.
#
foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	$node->safe_psql(
		'postgres', q{
		DROP EXTENSION citext CASCADE;
		CREATE EXTENSION citext;
		DROP TABLE IF EXISTS created;
		CREATE TABLE created (n integer)});
	# The snapshot is taken, and half a second later the first one commits.
	$node->pgbench(
		'--no-vacuum --client=4 --transactions=1',
		0,
		[qr{processed: 4/4}],
		[qr{^$}],
		"concurrent calls, $level",
		{
			'001_mirror_' . substr($level, 0, 4) => qq{
				BEGIN ISOLATION LEVEL $level;
				SELECT count(*) FROM pg_opclass;
				SELECT pg_sleep(0.2);
				INSERT INTO created SELECT bunbtree_mirror_opclasses();
				SELECT pg_sleep(0.2);
				COMMIT;
			}
		});
	is( $node->safe_psql(
			'postgres', q{SELECT n, count(*) FROM created GROUP BY n ORDER BY n}),
		"0|3\n2|1",
		"one call creates the classes, $level");
}

$node->stop;

done_testing();
