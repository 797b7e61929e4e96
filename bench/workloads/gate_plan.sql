-- Plan a query with two conditions and an order on a table that has indexes on all that.
--
-- From: the gate against regressions. PostgreSQL 18 calls the handler of every ordered
-- access method for the operators of every query.

CREATE TABLE gate (a int NOT NULL, b int NOT NULL, c int NOT NULL, v int NOT NULL);
INSERT INTO gate SELECT i, i % 100, i % 1000, i FROM generate_series(1, 1000) i;
SELECT format('CREATE INDEX gate_%s ON gate USING %s (%s, v) %s', i, :'am',
	(ARRAY['a', 'b', 'c'])[1 + i % 3], :'with')
FROM generate_series(1, :indexes) i \gexec
VACUUM ANALYZE gate;
