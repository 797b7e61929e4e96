-- A standby with readers, while the primary churns. What deletes entries on the primary
-- cancels, on the standby, queries that could still see them; so does what prunes the
-- table, whatever the index is. confl_snapshot is the standby's own count.
--
-- From: the question whether more deletion means more recovery conflicts. The standby has
-- no hot_standby_feedback; its two readers take 200 ms a query, and one that has kept
-- replay back for 300 ms is cancelled. The primary does 20 transactions of 20 rows a
-- second.

\ir churn_fifo.sql
