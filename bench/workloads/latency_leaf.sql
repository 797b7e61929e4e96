-- Two clients that change keys within the same leaf page, each its own rows.
--
-- From: the question what a pass does to whoever else wants its page.

CREATE TABLE leaf (id int PRIMARY KEY, k int NOT NULL);
CREATE INDEX leaf_k ON leaf USING :am (k) :with;
INSERT INTO leaf SELECT i, i FROM generate_series(0, :rows - 1) i;
VACUUM ANALYZE leaf;
