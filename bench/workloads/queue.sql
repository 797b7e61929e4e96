-- A queue that is also updated: three pgbench at once change rows anywhere, move the
-- queue on (insert at the end, delete at the head), and read with a snapshot that is
-- held all the time.
--
-- From: Victor Yegorov, pgsql-hackers, 2021-01-04, who tested the patch for bottom-up
-- deletion so, on 300 million rows with snapshots of five minutes at 2,297
-- transactions/s. Here snapshots are as long as makes the versions that they keep
-- 0.5 % of the rows, at the rate that a short trial on the first arm achieves; the
-- share that came out is among the figures. The queue waits 1 ms after each move, else it
-- would move on by more rows than are updated. Indexes: aid is unique, 5 rows have the
-- same fiver and 10 the same tenner, score has 1,000 values, and mtime is the time of
-- the last change, which every update moves to the right end.

CREATE TABLE accounts (
	aid bigint NOT NULL, fiver bigint NOT NULL, tenner bigint NOT NULL,
	score int NOT NULL, mtime timestamptz NOT NULL, abalance int NOT NULL,
	filler char(40));
CREATE SEQUENCE accounts_tail;
INSERT INTO accounts
	SELECT i, i / 5, i / 10, pick(i, 1000), now() - (:rows - i) * interval '1 ms', 0, ''
	FROM generate_series(1, :rows) i;
SELECT setval('accounts_tail', :rows) \g /dev/null
CREATE UNIQUE INDEX accounts_pkey ON accounts USING :am (aid) :with;
CREATE INDEX accounts_fiver ON accounts USING :am (fiver) :with;
CREATE INDEX accounts_tenner ON accounts USING :am (tenner) :with;
CREATE INDEX accounts_score ON accounts USING :am (score) :with;
CREATE INDEX accounts_mtime ON accounts USING :am (mtime) :with;
VACUUM ANALYZE accounts;
