
# A library in shared_preload_libraries has as much shared memory as it asked for
# when the server was started, whatever the setting says when the server starts
# anew after a crash.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
autovacuum = off
restart_after_crash = on
shared_preload_libraries = 'bunbtree'
bunbtree.max_indexes = 10
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION bunbtree;
	CREATE TABLE t (k int);
	CREATE INDEX t_k ON t USING bunbtree (k);
	INSERT INTO t VALUES (1);});

my $victim = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $victim->query_safe('SELECT pg_backend_pid()');

# Ten thousand times as much as there was, and more than there is to spare.
$node->adjust_conf('postgresql.conf', 'bunbtree.max_indexes', 100000);
$node->reload;
$node->poll_query_until('postgres',
	q{SELECT setting = '100000' FROM pg_settings WHERE name = 'bunbtree.max_indexes'})
  or die 'the setting was not reloaded';

my $log = -s $node->logfile;
kill 'KILL', $pid;
$victim->{run}->kill_kill;
$node->wait_for_log(
	qr/all server processes terminated; reinitializing.*(database system is ready to accept|database system is shut down)/s,
	$log);
unlike(slurp_file($node->logfile, $log), qr/FATAL:  not enough shared memory/,
	'the server starts after a crash');
is($node->safe_psql('postgres', q{
		INSERT INTO t VALUES (1);
		SELECT declined FROM pg_stat_bunbtree WHERE indexrelname = 't_k'}), 1,
	'and counts');
$node->stop;
done_testing();
