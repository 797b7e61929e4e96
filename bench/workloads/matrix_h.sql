-- A BEFORE trigger changes an indexed column that is not in the SET list. btree takes the
-- key for unchanged, and looks at pages where the row has never been.
--
-- From: the cases in which nbtree's hint is wrong (h), 20 rows a transaction.

CREATE TABLE player (id bigint PRIMARY KEY, points bigint NOT NULL, rank int NOT NULL);
CREATE INDEX player_rank ON player USING :am (rank) :with;
INSERT INTO player SELECT i, 0, pick(i, 1000000000) FROM generate_series(1, :rows) i;
ANALYZE player;

CREATE FUNCTION rank_player() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	NEW.rank := pick(NEW.id + 1000003 * NEW.points, 1000000000);
	RETURN NEW;
END $$;
CREATE TRIGGER rank_player BEFORE UPDATE ON player
	FOR EACH ROW EXECUTE FUNCTION rank_player();

CREATE FUNCTION play(batch bigint, rows bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 20 * batch + 1 .. 20 * batch + 20 LOOP
		UPDATE player SET points = points + 1 WHERE id = pick(i, rows);
	END LOOP;
END $$;
