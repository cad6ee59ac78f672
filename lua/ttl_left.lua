-- out: ttl_left

-- Returns the PTTL of a lock, at most the longest TTL of ours: a long number would get an exponent in an answer.
local function ttl_left(lock)
    local left_ms = redis.call("PTTL", lock)
    return left_ms < 2592000000 and left_ms or 2592000000
end
