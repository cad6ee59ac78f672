-- Adds to the TTL of a lock of any holder, for operators, like the gem's extend_lock_ttl. A sum of 0 or less ends
-- the lock, as with the gem.
--
-- @keys lock
-- @args add_ms
-- Returns 1 when done, 0 when there is no lock.

-- PEXPIRE would change or delete a key of any type; HEXISTS fails for one that is no lock.
redis.call("HEXISTS", KEYS[1], "acq_id")

local left = redis.call("PTTL", KEYS[1]) + tonumber(ARGV[1])
return redis.call("PEXPIRE", KEYS[1], math.min(left, 2592000000))
