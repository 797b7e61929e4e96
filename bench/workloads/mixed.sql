-- One write and five reads by key, prepared; then reads alone. Reads mark the entries of
-- dead rows that they meet, which dirties pages of the index, and logs them where
-- checksums or wal_log_hints are on.
--
-- From: Andres Freund and Jeff Janes, pgsql-hackers, 2014-09-28 and 29, who compared
-- relation sizes and throughput of such a mix with and without clean-up by readers,
-- over 66 runs (here: --runs).

CREATE TABLE accounts (aid int NOT NULL, abalance int NOT NULL, filler char(60));
INSERT INTO accounts SELECT i, 0, '' FROM generate_series(1, :rows) i;
CREATE UNIQUE INDEX accounts_aid ON accounts USING :am (aid) :with;
CREATE INDEX accounts_abalance ON accounts USING :am (abalance) :with;
VACUUM ANALYZE accounts;
