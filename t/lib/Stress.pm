
# Random SQL on twin tables: what stress, crash and standby tests churn with.
#
# Schemas "bt" and "bun" have the same tables; the indexes of one are btree, of
# the other bunbtree.  Clients apply the same statements to both in the same
# transaction, bt first, so whoever looks from one snapshot finds the same rows in
# both.  Clients work on rows of their own among those of others, on the same leaf
# pages.  Where they compete for the same keys (column "u" of table plain, table
# keyed), the lock on bt's row or key, held to the end of the transaction, decides
# for bun, too.  A statement of which that is not true for two snapshots in a row (a
# DELETE by key, a comparison) is run under REPEATABLE READ only.
#
# All SQL comes from the seed: statements do not depend on results.  How
# statements of different clients interleave is up to the server, of course.

package Stress;

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

# Domains of the columns, and rows that a client keeps in each table.
my $KEYS = 4000;
my $WINDOW = 800;

# SQLSTATEs that clients may meet, and go on: what competition brings, and its
# consequences.  A unique violation is another matter, see errors_of().
my %EXPECTED = map { $_ => 1 } qw(
  40001 40P01 55P03 57014 25P02 3B001 34000 42704);

# What maintenance may meet besides: objects that are gone, or in another state.
my %EXPECTED_OF_MAINTENANCE = (%EXPECTED, map { $_ => 1 } qw(
	  42P01 42P07 55000 55006));

# Warnings that mean nothing: after an error, and about indexes that are not valid.
my $HARMLESS = qr/there is no transaction in progress|skipping reindex of invalid index|cannot reindex invalid index/;

# What psql says, without a SQLSTATE, when the server has gone, or is not there yet.
my $LOST_CONNECTION = qr/^psql:\S*(?:\ error:)?\ (?:
	server\ closed\ the\ connection\ unexpectedly
	|(?:error:\ )?connection\ to\ server\ was\ lost
	|no\ connection\ to\ the\ server
	|(?:error:\ )?connection\ to\ server\ on\ socket\ "[^"]*"\ failed:\ 
	|could\ not\ (?:receive\ data\ from|send\ data\ to)\ server:\ )/x;

# A random number generator of its own for each purpose.
sub generator
{
	my (@seeds) = @_;
	my $state = 1;
	my $next = sub {
		my ($n) = @_;
		$state = ($state * 69069 + 12345) % 2**32;
		return int($state / 2**32 * $n);
	};

	foreach my $seed (@seeds)
	{
		$state = ($state * 69069 + $seed) % 2**32;
		$next->(1) for 1 .. 3;
	}
	return $next;
}

sub new
{
	my ($class, %args) = @_;
	my $self = bless {
		clients => 4,
		transactions => 30,
		compactions => 2,
		merged => 0,
		seed => 1,
		round => 0,
		operations => 0,
		outcomes => {},
		next_id => [],
		dir => PostgreSQL::Test::Utils::tempdir(),
		%args,
	}, $class;

	$self->{next_id}[$_] = 1 for 0 .. $self->{clients} + 1;
	return $self;
}

# Settings of a server.  JIT compilation would take most of the time, where plans
# that are switched off look expensive.
sub configure
{
	my ($node) = @_;

	$node->append_conf('postgresql.conf', q{
autovacuum = off
jit = off
max_prepared_transactions = 20
max_connections = 40
synchronous_commit = off
shared_buffers = 16MB
});
	return;
}

sub sql
{
	my ($self, $sql, $node) = @_;

	return ($node // $self->{node})->safe_psql('postgres', $sql);
}

# --- tables ------------------------------------------------------------------

# The tables of one schema; "am" is the access method of the indexes.
sub tables
{
	my ($schema, $am, $arbiter) = @_;

	return qq{
	CREATE SCHEMA $schema;
	SET search_path = $schema, public;
	CREATE TABLE plain (owner int, id int, k int, u int, t text, d numeric,
		n uuid, v int, pad text);
	CREATE UNIQUE INDEX plain_id ON plain USING $am (id, owner);
	CREATE UNIQUE INDEX plain_u ON plain USING $am (u);
	CREATE INDEX plain_k ON plain USING $am (k);
	CREATE INDEX plain_t ON plain USING $am (t DESC NULLS LAST, v) INCLUDE (id);
	CREATE INDEX plain_d ON plain USING $am (d, n);
	CREATE INDEX plain_expr ON plain USING $am (lower(t)) INCLUDE (t);
	CREATE INDEX plain_part ON plain USING $am (v) WHERE v > 50;
	CREATE TABLE keyed (key text, owner int, v int, at date);
	CREATE UNIQUE INDEX keyed_key ON keyed USING $arbiter (key);
	CREATE INDEX keyed_v ON keyed USING $am (v);
	CREATE INDEX keyed_at ON keyed USING $am (at);
	CREATE TABLE parted (owner int, id int, k int, s text) PARTITION BY RANGE (k);
	CREATE TABLE parted_0 PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (1000);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1000) TO (MAXVALUE);
	CREATE INDEX parted_k ON parted USING $am (k);
	CREATE INDEX parted_s ON parted USING $am (s) INCLUDE (id);
	CREATE UNLOGGED TABLE unlogged (owner int, id int, k int);
	CREATE INDEX unlogged_k ON unlogged USING $am (k);
	};
}

# How each index is read: table, condition that only this index serves, columns
# to compare, columns that the index alone can give ('' if none).
my @PROBES = (
	[ 'plain', 'plain_id', 'id > 0', 'id, owner' ],
	[ 'plain', 'plain_u', 'u IS NOT NULL', 'u' ],
	[ 'plain', 'plain_u', 'u IS NULL', 'u' ],
	[ 'plain', 'plain_k', 'k IS NOT NULL', 'k' ],
	[ 'plain', 'plain_t', 't IS NOT NULL', 't, v, id' ],
	[ 'plain', 'plain_t', 't IS NULL', 't, v, id' ],
	[ 'plain', 'plain_d', 'd IS NOT NULL', 'd, n' ],
	[ 'plain', 'plain_expr', 'lower(t) IS NOT NULL', '' ],
	[ 'plain', 'plain_part', 'v > 50', 'v' ],
	[ 'keyed', 'keyed_key', q{key > ''}, 'key' ],
	[ 'keyed', 'keyed_v', 'v IS NOT NULL', 'v' ],
	[ 'keyed', 'keyed_at', 'at IS NOT NULL', 'at' ],
	[ 'parted_0', 'parted_0_k_idx', 'k IS NOT NULL', 'k' ],
	[ 'parted_0', 'parted_0_s_id_idx', 's IS NOT NULL', 's, id' ],
	[ 'parted_1', 'parted_1_k_idx', 'k IS NOT NULL', 'k' ],
	[ 'parted_1', 'parted_1_s_id_idx', 's IS NOT NULL', 's, id' ],
	[ 'unlogged', 'unlogged_k', 'k IS NOT NULL', 'k' ],
);

# Functions that compare.  They raise errors of class ST, which nobody expects.
my $FUNCTIONS = q{
	CREATE SCHEMA stress;
	CREATE TABLE stress.probes (tab text, index text, cond text, cols text);

	-- Number of rows and a sum over their hashes, so that order does not matter.
	CREATE FUNCTION stress.digest(schema text, tab text, cond text, cols text)
	RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		result text;
	BEGIN
		EXECUTE format('SELECT count(*) || '' '' || coalesce(sum(hashtextextended(ROW(%s)::text, 0)), 0)'
					   ' FROM %I.%I x WHERE %s', cols, schema, tab, cond) INTO result;
		RETURN result;
	END
	$$;

	-- Do bt and bun have the same rows, by whatever plan?
	CREATE FUNCTION stress.compare(tab text, cond text) RETURNS void
	LANGUAGE plpgsql AS $$
	DECLARE
		bt text := stress.digest('bt', tab, cond, 'x.*');
		bun text := stress.digest('bun', tab, cond, 'x.*');
	BEGIN
		IF bt <> bun THEN
			RAISE 'table % WHERE %: bt has %, bun has %', tab, cond, bt, bun
				USING ERRCODE = 'ST001';
		END IF;
	END
	$$;

	-- Do the rest of two cursors have the same rows, in the same order?
	CREATE FUNCTION stress.compare_cursors(bt refcursor, bun refcursor) RETURNS void
	LANGUAGE plpgsql AS $$
	DECLARE
		a record;
		b record;
		n int := 0;
	BEGIN
		LOOP
			FETCH bt INTO a;
			FETCH bun INTO b;
			n := n + 1;
			IF a::text IS DISTINCT FROM b::text THEN
				RAISE 'cursors differ at row %: bt has %, bun has %', n, a, b
					USING ERRCODE = 'ST002';
			END IF;
			EXIT WHEN a IS NULL;
		END LOOP;
	END
	$$;

	-- Read all tables through all indexes of one schema by all kinds of scan, and
	-- compare with the other.  With "strict" each plan has to be the one that was
	-- asked for; an old snapshot may not use an index that was built after it.
	-- Returns a digest of all rows.
	CREATE FUNCTION stress.check(strict boolean, schema text DEFAULT 'bun') RETURNS text
	LANGUAGE plpgsql
	SET max_parallel_workers_per_gather = 0
	AS $$
	DECLARE
		other text := CASE schema WHEN 'bun' THEN 'bt' ELSE 'bun' END;
		p record;
		kind text;
		wanted text;
		found text;
		cols text;
		plan text;
		everything text := '';
	BEGIN
		FOR p IN SELECT * FROM stress.probes
		LOOP
			FOREACH kind IN ARRAY '{Seq,Index,Index Only,Bitmap Heap}'::text[]
			LOOP
				CONTINUE WHEN kind = 'Index Only' AND p.cols = '';
				PERFORM set_config('enable_seqscan', (kind = 'Seq')::text, true),
					set_config('enable_indexscan', (kind LIKE 'Index%')::text, true),
					set_config('enable_indexonlyscan', (kind = 'Index Only')::text, true),
					set_config('enable_bitmapscan', (kind = 'Bitmap Heap')::text, true);
				cols := CASE kind WHEN 'Index Only' THEN p.cols ELSE 'x.*' END;

				IF kind = 'Seq' THEN
					everything := everything || stress.digest(other, p.tab, 'true', 'x.*');
				ELSE
					EXECUTE format('EXPLAIN (FORMAT JSON, COSTS OFF) SELECT %s FROM %I.%I x WHERE %s',
								   cols, schema, p.tab, p.cond) INTO plan;
					IF strict AND (plan NOT LIKE '%"' || kind || ' Scan"%'
								   OR plan NOT LIKE '%"Index Name": "' || p.index || '"%') THEN
						RAISE '% scan of % cannot be had: %', kind, p.index, plan
							USING ERRCODE = 'ST003';
					END IF;
				END IF;

				found := stress.digest(schema, p.tab, p.cond, cols);
				PERFORM set_config('enable_seqscan', 'on', true),
					set_config('enable_indexscan', 'off', true),
					set_config('enable_bitmapscan', 'off', true);
				wanted := stress.digest(other, p.tab, p.cond, cols);
				IF found <> wanted THEN
					RAISE '% scan of % WHERE %: % has %, % has %',
						kind, p.index, p.cond, other, wanted, schema, found
						USING ERRCODE = 'ST004';
				END IF;
			END LOOP;
		END LOOP;
		RETURN md5(everything);
	END
	$$;

	-- amcheck's verdict on all indexes of both schemas.  A standby cannot take the locks that
	-- looking at parents needs.
	CREATE FUNCTION stress.amcheck() RETURNS void
	LANGUAGE plpgsql AS $$
	DECLARE
		i record;
	BEGIN
		FOR i IN
			SELECT c.oid, amname FROM pg_class c JOIN pg_am a ON a.oid = relam
			JOIN pg_index ON indexrelid = c.oid
			WHERE relkind = 'i' AND relnamespace IN ('bt'::regnamespace, 'bun'::regnamespace)
				AND indisvalid AND NOT (pg_is_in_recovery() AND relpersistence = 'u')
		LOOP
			IF i.amname = 'btree' THEN
				PERFORM bt_index_check(i.oid, true);
			ELSE
				PERFORM bunbtree_check(i.oid, true, NOT pg_is_in_recovery());
			END IF;
		END LOOP;
	END
	$$;
};

# What compares, without tables to be compared.
sub create_functions
{
	my ($node) = @_;

	$node->safe_psql('postgres', $FUNCTIONS . join '', map {
		'INSERT INTO stress.probes VALUES (' . join(', ', map { "\$\$$_\$\$" } @$_) . ");\n"
	} @PROBES);
	return;
}

# Create all there is in database postgres.
sub create
{
	my ($self) = @_;
	my $node = $self->{node};

	$self->sql('CREATE EXTENSION bunbtree; CREATE EXTENSION amcheck');

	# Can the target of ON CONFLICT be one of our indexes?
	my ($rc) = $node->psql('postgres', q{
		CREATE TEMPORARY TABLE o (k int);
		CREATE UNIQUE INDEX ON o USING bunbtree (k);
		INSERT INTO o VALUES (1) ON CONFLICT (k) DO NOTHING}, on_error_stop => 1);
	$self->{arbiter} = $rc == 0 ? 'bunbtree' : 'btree';

	create_functions($node);
	$self->sql(tables('bt', 'btree', 'btree'));
	$self->sql(tables('bun', 'bunbtree', $self->{arbiter}));
	return;
}

# --- operations of clients ---------------------------------------------------

# The same statement for both schemas; "@" stands for the schema.
sub both
{
	my ($statement) = @_;

	return join("\n", map { (my $s = $statement) =~ s/@/$_/g; "$s;" } qw(bt bun)) . "\n";
}

# Rows of a client for table plain, different for each salt.
sub rows
{
	my ($client, $salt, $from) = @_;

	return "SELECT $client, i, abs(hashint4(i + $salt)) % $KEYS, "
	  . "CASE WHEN i % 3 = 0 THEN i * 8 + $client END, "
	  . "CASE WHEN i % 11 > 0 THEN 'T' || md5((i % 500 + $salt % 7)::text) END, "
	  . "(i + $salt) % 1000 / 7.0, md5((i + $salt)::text)::uuid, "
	  . "abs(hashint4(i * 7 + $salt)) % 100, NULL FROM $from";
}

# A range of a client's rows: the oldest, or any.
sub range
{
	my ($self, $client, $rng, $max) = @_;
	my $high = $self->{next_id}[$client];
	my $low = $high - $WINDOW;
	my $first;

	$low = 1 if $low < 1;
	$first = $rng->(2) ? $low : $low + $rng->($high - $low + 1);
	return 'BETWEEN ' . $first . ' AND ' . ($first + $rng->($max));
}

sub mine
{
	my ($self, $client, $rng, $max) = @_;

	return "owner = $client AND id " . $self->range($client, $rng, $max);
}

sub insert_rows
{
	my ($self, $client, $rng, $count) = @_;
	my $first = $self->{next_id}[$client];
	my $last = $first + $count - 1;
	my $order = $rng->(2) ? 'i' : 'hashint4(i)';
	my $salt = $rng->(100000);
	my $rows = "generate_series($first, $last) i ORDER BY $order";

	$self->{next_id}[$client] = $last + 1;
	return both('INSERT INTO @.plain ' . rows($client, $salt, $rows))
	  . both("INSERT INTO @.parted SELECT $client, i, abs(hashint4(i + $salt)) % 2000, 's' || i % 50 FROM $rows")
	  . both("INSERT INTO @.unlogged SELECT $client, i, abs(hashint4(i + $salt)) % 2000 FROM $rows");
}

# What falls out of the window goes.
sub delete_old
{
	my ($self, $client, $rng) = @_;
	my $where = "owner = $client AND id < " . ($self->{next_id}[$client] - $WINDOW);

	return join '', map { both("DELETE FROM @.$_ WHERE $where") } qw(plain parted unlogged);
}

# Each takes self, client, random number generator; with the isolation levels under
# which it is allowed: any, or only those with one snapshot for all statements.
my @OPERATIONS = (
	[ 6, 'any', 'insert', sub {
		my ($self, $client, $rng) = @_;
		return $self->insert_rows($client, $rng, 1 + $rng->(60)) . $self->delete_old($client, $rng);
	} ],
	[ 2, 'any', 'insert one by one', sub {
		my ($self, $client, $rng) = @_;
		return join '', map { $self->insert_rows($client, $rng, 1) } 1 .. 2 + $rng->(4);
	} ],
	[ 3, 'any', 'delete', sub {
		my ($self, $client, $rng) = @_;
		my $where = $self->mine($client, $rng, 60);
		$where .= ' AND hashint4(id) % 3 = 0' if $rng->(2);
		return join '', map { both("DELETE FROM @.$_ WHERE $where") } qw(plain parted unlogged);
	} ],
	[ 4, 'any', 'delete and insert again', sub {
		my ($self, $client, $rng) = @_;
		my $salt = $rng->(1000);
		my $first = $self->{next_id}[$client] - $rng->($WINDOW);
		$first = 1 if $first < 1;
		my $last = $first + $rng->(40);
		$last = $self->{next_id}[$client] - 1 if $last >= $self->{next_id}[$client];
		my $rows = rows($client, $salt, "generate_series($first, $last) i");
		my $where = "owner = $client AND id BETWEEN $first AND $last";
		return both("DELETE FROM @.plain WHERE $where") . both("INSERT INTO @.plain $rows")
		  . both("DELETE FROM @.parted WHERE $where")
		  . both("INSERT INTO @.parted SELECT $client, i, i % 2000, 's' || i % 50 FROM generate_series($first, $last) i");
	} ],
	[ 6, 'any', 'update of a key', sub {
		my ($self, $client, $rng) = @_;
		my $where = $self->mine($client, $rng, 60);
		my $salt = $rng->(100000);
		my $set = (
			"k = abs(hashint4(id + $salt)) % $KEYS",
			"t = CASE WHEN id % 5 > 0 THEN 'T' || md5((id % 300 + $salt)::text) END",
			"d = (id + $salt) % 900 / 3.0, n = md5((id + $salt)::text)::uuid",
			"k = k, t = t, d = d",
			"v = (v + $salt) % 100",
			"k = k + 1")[ $rng->(6) ];
		return both("UPDATE @.plain SET $set WHERE $where");
	} ],
	[ 3, 'any', 'update of no key', sub {
		my ($self, $client, $rng) = @_;
		my $where = $self->mine($client, $rng, 60);
		return both("UPDATE @.plain SET pad = repeat('-', " . $rng->(60) . ") WHERE $where");
	} ],
	[ 2, 'any', 'update of a partition key', sub {
		my ($self, $client, $rng) = @_;
		my $where = $self->mine($client, $rng, 40);
		my $set = $rng->(2) ? 'k = 1999 - k' : q{s = 's' || (id + } . $rng->(50) . ') % 50';
		return both("UPDATE @.parted SET $set WHERE $where")
		  . both("UPDATE @.unlogged SET k = k + 1 WHERE $where");
	} ],
	# Everybody wants the same values.
	[ 3, 'any', 'competition for a unique key', sub {
		my ($self, $client, $rng) = @_;
		my $id = $self->{next_id}[$client] - 1 - $rng->(200);
		my $u = $rng->(5) ? -1 - $rng->(200) : 'NULL';
		return both("UPDATE @.plain SET u = $u WHERE owner = $client AND id = $id");
	} ],
	[ 4, 'any', 'upsert', sub {
		my ($self, $client, $rng) = @_;
		my ($salt, $n) = ($rng->(100000), 1 + $rng->(40));
		my $select = "SELECT DISTINCT ON (1) 'key' || abs(hashint4(i + $salt)) % 1500, $client, "
		  . "abs(hashint4(i * 3 + $salt)) % 700, date '2020-01-01' + (i + $salt) % 365 "
		  . "FROM generate_series(1, $n) i ORDER BY 1";
		my $action = (
			'DO UPDATE SET owner = excluded.owner, v = excluded.v, at = excluded.at',
			'DO UPDATE SET key = excluded.key, v = excluded.v',
			'DO NOTHING')[ $rng->(3) ];
		# That locks no row: between bt's turn and bun's, somebody might delete it.
		my $lock = $action eq 'DO NOTHING' ? "LOCK TABLE bt.keyed IN SHARE ROW EXCLUSIVE MODE;\n" : '';
		return $lock . both("INSERT INTO @.keyed $select ON CONFLICT (key) $action");
	} ],
	[ 2, 'one snapshot', 'delete by shared key', sub {
		my ($self, $client, $rng) = @_;
		my $v = $rng->(700);
		return both("DELETE FROM @.keyed WHERE v BETWEEN $v AND " . ($v + $rng->(30)));
	} ],
	[ 2, 'one snapshot', 'compare', sub {
		my ($self, $client, $rng) = @_;
		my $k = $rng->($KEYS);
		return ("SELECT stress.compare('plain', 'k BETWEEN $k AND " . ($k + 200) . "');\n",
			"SELECT stress.compare('keyed', 'v > " . $rng->(700) . "');\n",
			"SELECT stress.compare('parted', 'k < " . $rng->(2000) . "');\n")[ $rng->(3) ];
	} ],
	[ 2, 'any', 'compare my own', sub {
		my ($self, $client, $rng) = @_;
		my $where = $self->mine($client, $rng, 200);
		return "SELECT stress.compare('plain', '$where');\n";
	} ],
);

sub choose_operation
{
	my ($rng, $level) = @_;
	my @allowed = grep { $_->[1] eq 'any' || $level ne 'READ COMMITTED' } @OPERATIONS;
	my $total = 0;

	$total += $_->[0] for @allowed;
	my $at = $rng->($total);
	foreach my $operation (@allowed)
	{
		return $operation if ($at -= $operation->[0]) < 0;
	}
	die 'not reached';
}

# How this session looks for rows.
sub scan_settings
{
	my ($rng) = @_;

	return (
		"SET enable_seqscan = off; SET enable_bitmapscan = off;\n",
		"SET enable_seqscan = off; SET enable_indexscan = off;\n",
		"SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = on;\n",
		'')[ $rng->(4) ];
}

# Settings of the extension.
sub extension_settings
{
	my ($rng) = @_;
	my $sql = '';

	$sql .= 'SET bunbtree.heap_blocks = ' . (1, 8, 1400)[ $rng->(3) ] . ";\n" if $rng->(4) == 0;
	$sql .= "SET bunbtree.io = 'any';\n" if $rng->(4) == 0;
	$sql .= "SET bunbtree.bottomup = hinted;\n" if $rng->(12) == 0;
	$sql .= "SET bunbtree.bottomup = off;\n" if $rng->(20) == 0;
	$sql .= 'SET bunbtree.max_pass_time = ' . (0.01, 100)[ $rng->(2) ] . ";\n" if $rng->(6) == 0;
	$sql .= 'SET bunbtree.scan_cleanup_limit = ' . (0, 3)[ $rng->(2) ] . ";\n" if $rng->(4) == 0;
	return $sql;
}

# One transaction of a client.
sub transaction
{
	my ($self, $client, $rng, $number) = @_;
	my $level = ('READ COMMITTED', 'READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ',
		'REPEATABLE READ', 'SERIALIZABLE')[ $rng->(6) ];
	my $sql = "BEGIN ISOLATION LEVEL $level;\n";
	my $cursors = $level ne 'READ COMMITTED' && $rng->(3) == 0;

	if ($cursors)
	{
		my $k = $rng->($KEYS);
		$sql .= both("DECLARE \@_c CURSOR FOR SELECT owner, id, k, t, v FROM @.plain "
			  . "WHERE k BETWEEN $k AND " . ($k + 500) . ' ORDER BY k, owner, id')
		  . both('MOVE ' . $rng->(30) . ' FROM @_c');
	}
	foreach my $i (1 .. 1 + $rng->(4))
	{
		my $operation = choose_operation($rng, $level);
		my $statements = $operation->[3]->($self, $client, $rng);
		my $how = $rng->(10);

		$self->{operations}++;
		if ($how < 3)
		{
			$sql .= "SAVEPOINT s$i;\n$statements";
			$sql .= ($how < 2 ? 'ROLLBACK TO' : 'RELEASE') . " s$i;\n";
		}
		else
		{
			$sql .= $statements;
		}
	}
	$sql .= "SELECT stress.compare_cursors('bt_c', 'bun_c');\n" if $cursors;

	my $end = $rng->(20);
	if ($end < 15) { $sql .= "COMMIT;\n" }
	elsif ($end < 18) { $sql .= "ROLLBACK;\n" }
	else
	{
		my $gid = "c$client-$self->{round}-$number";

		$sql .= "PREPARE TRANSACTION '$gid';\n"
		  . ($end == 18 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid';\n";
	}
	return $sql;
}

sub client_script
{
	my ($self, $client, $transactions) = @_;
	my $rng = generator($self->{seed}, $self->{round}, $client);
	my $sql = scan_settings($rng) . extension_settings($rng);

	# After TRUNCATE there would be little to do.
	$sql .= "BEGIN;\n" . $self->insert_rows($client, $rng, $WINDOW / 2) . "COMMIT;\n"
	  if $self->{round} == 1 || $rng->(6) == 0;
	$sql .= $self->transaction($client, $rng, $_) for 1 .. $transactions;
	return $sql;
}

# --- maintenance -------------------------------------------------------------

my @INDEXES = qw(plain_id plain_u plain_k plain_t plain_d plain_expr plain_part
  keyed_v keyed_at parted_0_k_idx parted_1_s_id_idx unlogged_k);
my @TABLES = qw(plain keyed parted_0 parted_1 unlogged);

# What one more client does meanwhile.
sub maintenance_script
{
	my ($self) = @_;
	my $rng = generator($self->{seed}, $self->{round}, 1000);
	my $sql = '';

	for (1 .. 3 + $rng->(4))
	{
		my $table = $TABLES[ $rng->(scalar @TABLES) ];
		my $index = $INDEXES[ $rng->(scalar @INDEXES) ];
		# not parts of a partitioned index
		my $whole = (grep { !/^parted/ } @INDEXES)[ $rng->(10) ];

		$sql .= (
			"VACUUM bun.$table;\n",
			"VACUUM (INDEX_CLEANUP on) bun.$table; VACUUM (INDEX_CLEANUP on) bt.$table;\n",
			"VACUUM (FREEZE, ANALYZE) bun.$table;\n",
			"ANALYZE bun.$table;\n",
			"REINDEX INDEX CONCURRENTLY bun.$index;\n",
			"REINDEX TABLE CONCURRENTLY bun.$table;\n",
			"REINDEX INDEX bun.$index;\n",
			"CREATE INDEX CONCURRENTLY extra_pad ON bun.plain USING bunbtree (pad);\n",
			"CREATE UNIQUE INDEX CONCURRENTLY extra_id ON bun.plain USING bunbtree ((id * 8 + owner));\n",
			"DROP INDEX CONCURRENTLY bun.extra_pad; DROP INDEX bun.extra_id;\n",
			"ALTER INDEX bun.$index SET (fillfactor = " . (50 + $rng->(50)) . ", heap_blocks = " . (1 + $rng->(100)) . ");\n",
			"ALTER INDEX bun.$index RESET (heap_blocks);\n",
			"SELECT bunbtree_release('bun.$whole'); SELECT pg_sleep(0.1); SELECT bunbtree_adopt('bun.$whole');\n",
			"SELECT bunbtree_release('bun.parted_k'); SELECT bunbtree_adopt('bun.parted_k');\n",
			"SELECT bunbtree_adopt_table('bun.plain');\n",
			$rng->(3) ? "VACUUM (INDEX_CLEANUP on, TRUNCATE off) bun.plain;\n"
			: "TRUNCATE bt.$table, bun.$table;\n",
			$rng->(3) ? "VACUUM bun.keyed;\n" : "VACUUM FULL bun.$table;\n",
		)[ $rng->(17) ];
		$sql .= 'SELECT pg_sleep(' . $rng->(20) / 100 . ");\n";
		$self->{operations}++;
	}
	return "SET lock_timeout = '700ms';\nSET statement_timeout = '20s';\n" . $sql;
}

# Statements that make leaf pages sparse: rows come, and most of them go.
sub make_sparse
{
	my ($self, $rng) = @_;
	my $client = $self->{clients} + 1;
	my $where = "owner = $client AND hashint4(id) % 20 <> 0";

	return "BEGIN;\n" . $self->insert_rows($client, $rng, 4000) . "COMMIT;\nBEGIN;\n"
	  . join('', map { both("DELETE FROM @.$_ WHERE $where") } qw(plain parted unlogged))
	  . "COMMIT;\n" . both('VACUUM @.plain, @.parted, @.unlogged');
}

# What yet another client does: merge leaf pages, of one index after the other.  Half
# of the time it insists on the lock, else it would hardly ever get it.
sub compaction_script
{
	my ($self, $rng) = @_;
	my $sql = '';

	for my $call (1 .. 8 * $self->{compactions})
	{
		my $index = (qw(bun bt))[ $rng->(4) == 0 ] . '.' . $INDEXES[ $rng->(scalar @INDEXES) ];
		my $fill = 0.5 + $rng->(51) / 100;
		my $pages = (2, 5, 33, 64, 1000)[ $rng->(5) ];
		my $pause = $rng->(3) * 4;
		my $wait = $rng->(2) ? 'true' : 'false';

		$sql .= "CALL bunbtree_compact('$index', fill => $fill, max_pages => $pages, "
		  . "pause => '$pause ms', max_runtime => '100 ms', wait => $wait, verbose => true);\n";
		$sql .= $self->make_sparse($rng) if $call % 8 == 0;
		$self->{operations}++;
	}
	return "SET lock_timeout = '300ms';\n" . $sql;
}

# --- rounds ------------------------------------------------------------------

# Run a script by psql, without waiting for it.
sub run_script
{
	my ($self, $name, $script) = @_;
	my $file = "$self->{dir}/$name";

	append_to_file("$file.sql", "\\set VERBOSITY verbose\nSET deadlock_timeout = '50ms';\n" . $script);
	my $run = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $self->{node}->connstr('postgres'), '-f', "$file.sql" ],
		'<', \undef, '>', "$file.out", '2>', "$file.err");
	return { name => $name, file => $file, run => $run };
}

# Start all clients on a new round.
sub start_round
{
	my ($self) = @_;

	$self->{round}++;
	my %scripts = map {
		("client$_" => $self->client_script($_, $self->{transactions}))
	} 1 .. $self->{clients};
	if (!$self->{no_maintenance})
	{
		$scripts{maintenance} = $self->maintenance_script();

		my $rng = generator($self->{seed}, $self->{round}, 1001);
		$self->sql($self->make_sparse($rng));
		$scripts{'maintenance-compaction'} = $self->compaction_script($rng);
	}
	$self->{running} = [
		map { $self->run_script("round$self->{round}-$_", $scripts{$_}) } sort keys %scripts ];
	return;
}

# Wait for the clients.  Returns what went wrong, in words; '' if nothing did.
# With "crashed" it is no wonder that they have lost their connection.
sub finish_round
{
	my ($self, $crashed) = @_;
	my @errors;

	foreach my $client (@{ $self->{running} })
	{
		my $ok = IPC::Run::finish($client->{run});

		push @errors, "$client->{name}: psql failed" unless $ok || $crashed;
		push @errors, $self->errors_of($client, $crashed);
		unlink map { "$client->{file}.$_" } qw(sql out err) unless @errors;
	}
	$self->{running} = [];
	return join("\n", @errors);
}

# Errors in the output of a client that should not have happened.
sub errors_of
{
	my ($self, $client, $crashed) = @_;
	my $expected = $client->{name} =~ /maintenance/ ? \%EXPECTED_OF_MAINTENANCE : \%EXPECTED;
	my $output = slurp_file("$client->{file}.err");
	my @errors;

	# A message begins with "psql:file:line: SEVERITY:  code: ".
	foreach my $message (split /^(?=psql:)/m, $output)
	{
		if ($message =~ /(ERROR|WARNING|FATAL|PANIC):  ([0-9A-Z]{5}): /)
		{
			my ($severity, $code) = ($1, $2);

			$self->{outcomes}{$code}++;
			next if $severity eq 'ERROR' && $expected->{$code};
			next if $severity eq 'WARNING' && $message =~ /$HARMLESS/;

			# bt has the last word on uniqueness.  A concurrent build meets
			# rows of bun alone.
			next if $severity eq 'ERROR' && $code eq '23505' && $message =~ /^SCHEMA NAME:  bt$/m;
			next if $crashed && $severity ne 'ERROR' && $code =~ /^57P0[123]$/;
		}
		elsif ($message =~ /INFO:  00000: slice \d+: (\d+) leaf pages removed/)
		{
			$self->{merged} += $1;
			next;
		}
		elsif ($message =~ /(?:NOTICE|INFO):  00000: /)
		{
			next;
		}
		elsif ($crashed && $message =~ $LOST_CONNECTION)
		{
			next;
		}
		push @errors, "$client->{name}: $message";
	}
	return @errors;
}

# Put right what a round may have left: transactions that are prepared still,
# indexes that are not valid (unless a holder would keep us from dropping them).
sub tidy
{
	my ($self) = @_;
	my $idle = $self->holders == 0 ? 'true' : 'false';
	my $sql = $self->sql(qq{
		SELECT format('%s PREPARED %L;', CASE WHEN hashtext(gid) % 2 = 0 THEN 'COMMIT' ELSE 'ROLLBACK' END, gid)
		FROM pg_prepared_xacts
		UNION ALL
		SELECT format('DROP INDEX %s;', indexrelid::regclass)
		FROM pg_index WHERE NOT indisvalid AND $idle});

	$self->sql($sql) if $sql ne '';
	return;
}

# Make everything bunbtree that can be.
sub adopt_all
{
	my ($self) = @_;

	$self->sql(q{
		SELECT bunbtree_adopt(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = relam
		WHERE relnamespace = 'bun'::regnamespace AND amname = 'btree' AND NOT relispartition
			AND relname NOT IN ('extra_pad', 'extra_id', 'keyed_key')});
	return;
}

# Compare the twins.  Returns what is wrong, in words; '' if nothing is.
sub check
{
	my ($self, $node) = @_;
	my ($rc, $stdout, $stderr) = ($node // $self->{node})->psql('postgres',
		'SELECT stress.check(true); SELECT stress.amcheck()', on_error_stop => 1);

	return $rc == 0 ? '' : $stderr;
}

# What a server has to complain about: crashes that nobody has ordered, leaks,
# corruption.
sub complaints
{
	my ($log) = @_;

	return join "\n", grep { /WARNING: |PANIC: |TRAP: |terminated by signal|ERROR:  .*(corrupt|could not find|invariant)/
		  && !/$HARMLESS/ } split /\n/, $log;
}

# Entries that passes have deleted so far, as far as counters have survived.
sub count_deleted
{
	my ($self) = @_;
	my $now = $self->sql('SELECT coalesce(sum(entries_deleted), 0) FROM pg_stat_bunbtree');
	my $last = $self->{deleted_last} // 0;

	$self->{deleted} += $now >= $last ? $now - $last : $now;
	$self->{deleted_last} = $now;
	return $self->{deleted};
}

# --- held snapshots ----------------------------------------------------------

# Open a session that keeps a snapshot, and remember what it sees.
sub hold
{
	my ($self, $kind) = @_;
	my $session = $self->{node}->background_psql('postgres', on_error_stop => 0);
	my $level = $kind eq 'serializable' ? 'SERIALIZABLE' : 'REPEATABLE READ';
	my $holder = { kind => $kind, session => $session, round => $self->{round} };

	# It is held over rounds: the limit of time is for each query.
	$session->set_query_timer_restart;

	if ($kind eq 'exported' && @{ $self->{holders} // [] })
	{
		# somebody else's snapshot
		my $other = $self->{holders}[0];
		my $name = ask($other->{session}, 'SELECT pg_export_snapshot()');
		ask($session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$name'");
		$holder->{seen} = $other->{seen};
	}
	else
	{
		ask($session, "BEGIN ISOLATION LEVEL $level");
		$holder->{seen} = ask($session, 'SELECT stress.check(false)');
	}
	if ($kind eq 'cursor')
	{
		# Not index-only: such a scan would keep VACUUM waiting.
		ask($session, "SET enable_seqscan = off; SET enable_bitmapscan = off;"
			  . both('DECLARE @_c CURSOR FOR SELECT * FROM @.plain WHERE k > 1000 ORDER BY k, owner, id')
			  . both('MOVE 50 FROM @_c'));
	}
	push @{ $self->{holders} }, $holder;
	return;
}

# A query of a holder.  Returns its result, or the error.
sub ask
{
	my ($session, $sql) = @_;
	my $result = $session->query($sql);
	my $error = $session->{stderr};

	$session->{stderr} = '';
	return $error =~ /ERROR: / ? $error : $result;
}

# Do all holders still see what they saw?
sub check_held
{
	my ($self) = @_;
	my @errors;

	foreach my $holder (@{ $self->{holders} // [] })
	{
		my $seen = ask($holder->{session}, 'SELECT stress.check(false)');

		push @errors, "snapshot ($holder->{kind}) of round $holder->{round} saw $holder->{seen}, now: $seen"
		  if $seen ne $holder->{seen};
		$self->{held_checks}++;
	}
	return join("\n", @errors);
}

# Let a holder go.  Its cursors are read to their end.
sub release
{
	my ($self) = @_;
	my $holder = shift @{ $self->{holders} } or return '';
	my $wrong = '';

	if ($holder->{kind} eq 'cursor')
	{
		$wrong = ask($holder->{session}, "SELECT stress.compare_cursors('bt_c', 'bun_c')");
		$wrong = "cursors of round $holder->{round}: $wrong" if $wrong ne '';
	}
	ask($holder->{session}, 'COMMIT');
	$holder->{session}->quit;
	return $wrong;
}

sub holders { return scalar @{ $_[0]->{holders} // [] } }

# A line on what was done.
sub summary
{
	my ($self) = @_;

	return "seed $self->{seed}: $self->{round} rounds, $self->{operations} operations, "
	  . ($self->{held_checks} // 0) . ' checks of held snapshots, '
	  . $self->count_deleted() . ' entries deleted by passes, '
	  . "$self->{merged} leaf pages by compaction; errors by code: "
	  . join(' ', map { "$_ $self->{outcomes}{$_}" } sort keys %{ $self->{outcomes} });
}

1;
