-- Let a grant live for at least ttl_ms from now if it is still in force; never shortens, never creates.
--
-- @keys lock queue requests live fence
-- @args nonce ttl_ms chance
-- Returns {1, now_us, ttl_left_ms} when in force, {0, now_us} when the grant has ended.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = call("TIME")
local now = time[1] * 1000000 + time[2]
local ttl = tonumber(ARGV[2])

if not ttl or ttl < 1 or ttl > 2592000000 or ttl % 1 ~= 0 then
    return redis.error_reply("ERR ttl out of range")
end
if call("HGET", lock, "rql_nonce") == ARGV[1] then
    local left = math.max(call("PTTL", lock), ttl)
    call("PEXPIRE", lock, left)
    call("HDEL", lock, "rql_claim")
    return {1, now, left}
end
if call("HEXISTS", lock, "acq_id") == 1 or call("EXISTS", queue) == 0 then
    return {0, now}
end

-- @include grant
-- @include settle

settle(tonumber(ARGV[3]))
return {0, now}
