-- Add to the ttl of a lock whoever holds it: the gem's extend_lock_ttl, for operators (wire.md 8).
--
-- @keys lock
-- @args add_ms
-- Returns 1 when done, 0 when there is no lock.

local left = redis.call("PTTL", KEYS[1]) + tonumber(ARGV[1])
return redis.call("PEXPIRE", KEYS[1], math.min(left, 2592000000))
