-- Adds to the TTL of a lock of any holder, for operators, like the gem's extend_lock_ttl. A sum of 0 or less ends
-- the lock, as with the gem. No lock gets more than 30 days, but a longer TTL of the gem's is not shortened to them. A
-- lock of several ends with its last share, so it is not extended.
--
-- @keys lock
-- @args add_ms
-- Returns 1 when done, 0 when there is no lock.

-- PEXPIRE would change or delete a key of any type; HEXISTS fails for one that is no lock.
local is_of_several = redis.call("HEXISTS", KEYS[1], "rql_used") == 1
local add_ms, left = tonumber(ARGV[1]), redis.call("PTTL", KEYS[1])

local sum = left + (is_of_several and math.min(add_ms, 0) or add_ms)
return redis.call("PEXPIRE", KEYS[1], math.min(sum, math.max(left, 2592000000)))
