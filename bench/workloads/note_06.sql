-- Five rows that are updated all the time while a snapshot is held: each look at a page is
-- in vain, and must cost next to nothing. Then the snapshot goes, and updates go on.
--
-- From: github.com/NikolayS/PgQue/issues/61, with 14,312 dead versions of 5 rows. Expected:
-- what is dead goes when the holder has gone.

CREATE TABLE cursor_position (id int PRIMARY KEY, position bigint NOT NULL);
CREATE INDEX cursor_position_position ON cursor_position USING :am (position) :with;
INSERT INTO cursor_position SELECT i, pick(i, 1000000) FROM generate_series(1, 5) i;
VACUUM ANALYZE cursor_position;
