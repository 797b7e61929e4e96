-- 32 clients that change keys on a few leaf pages, each its own rows; what they wait for
-- is sampled.
--
-- From: the question what a pass does to whoever else wants its page.

\ir latency_leaf.sql
