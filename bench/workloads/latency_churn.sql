-- How long does a single insertion take while another session deletes and inserts as fast
-- as it can? A pass keeps its leaf page locked, and makes the insertion that causes it
-- slower.
--
-- From: the question that every benchmark of throughput leaves open. Insertions come at 500
-- a second, and one that has to wait for its turn counts that time.

\ir churn_random.sql
