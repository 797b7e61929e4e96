-- Updates that leave the keys of two indexes alone, while somebody's snapshot keeps
-- every version; then the snapshot goes, and one statement updates every row.
--
-- From: what bunbtree promises about held horizons. While one is held, no look at a page
-- can find anything; afterwards each page is cleaned at its next would-be split.

CREATE TABLE held (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, v int NOT NULL);
INSERT INTO held SELECT i, i, i % 1000, 0 FROM generate_series(1, :rows) i;
CREATE INDEX held_a ON held USING :am (a) :with;
CREATE INDEX held_b ON held USING :am (b) :with;
CREATE INDEX held_v ON held USING btree (v);
VACUUM ANALYZE held;
