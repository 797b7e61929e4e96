-- What the workloads of bench/run share; in the database that all start from.

-- The n-th of a fixed sequence of arbitrary numbers between 1 and m: the same in
-- every arm and on every server.
CREATE FUNCTION pick(n bigint, m bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
	'SELECT 1 + (hashint8extended(n, 42) & 9223372036854775807) % m';

CREATE FUNCTION pick_uuid(n bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
	'SELECT md5(n::text)::uuid';
