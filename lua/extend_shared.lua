-- Extends a share to at least ttl_ms from now if it is still in force. The script never shortens or creates a share. A
-- lock that its owner holds alone becomes a lock of one that is shared.
--
-- @keys lock queue requests live fence shares
-- @args acquirer nonce ttl_ms random share ...
-- Returns the answers of extend.lua, or "4 now_us": the owner holds the lock alone, and an extendable re-entry has
-- extended it.

local call, keys = redis.call, KEYS
local lock, queue, requests, shares = keys[1], keys[2], keys[3], keys[6]
local acquirer, nonce, ttl_ms = ARGV[1], ARGV[2], ARGV[3]
-- @include clock
-- @include ttl

local held = call("HMGET", lock, "acq_id", "rql_nonce", "rql_share", "rql_end", "rql_h:" .. acquirer)
local field, left_ms = held[5], call("PTTL", lock)
local end_us = field and field:sub(1, 32) == nonce and call("ZSCORE", shares, acquirer)
if held[2] == nonce then
    if held[4] then
        return "4 " .. now_text
    end
    -- A lock that is lowered looks at its queue: there, a foreign type is an error before the first write.
    local n_places = not held[3] and call("HLEN", requests) and call("ZCARD", queue)
    left_ms = math.max(left_ms, ttl_ms)
    call("PEXPIRE", lock, left_ms)
    call("HDEL", lock, "rql_claim")
    if not held[3] then
        -- @include waiters
        -- @include serving
        -- @include tell_next
        call("HSET", lock, "rql_share", ARGV[5])
        restore(queue, requests, n_places) -- Ruby may have removed the next waiter
        notify_next_sharer(keys, now_text)
    end
elseif end_us and end_us - now_text > 0 then
    -- A lock of several has no such field. But a full server refuses no write behind one that needs no memory.
    call("HDEL", lock, "rql_claim")
    if field:find("^%x+ %S+ %d+ %d+ %d+ c") then
        call("HSET", lock, "rql_h:" .. acquirer, (field:gsub("^(%x+ %S+ %d+ %d+ %d+) c", "%1 -")))
    end
    left_ms = math.max(math.floor((end_us - now_text) / 1000), ttl_ms)
    call("ZADD", shares, "GT", string.format("%.0f", now_text + ttl_ms * 1000), acquirer)
    local life_ms = ttl_ms
    -- @include keep_for
elseif held[1] or call("EXISTS", queue, requests) == 0 then
    return "0 " .. now_text
else
    -- @include waiters
    -- @include serving
    -- @include serve_queue
    serve(keys, now_text, now_seconds, ARGV[4])
    return "0 " .. now_text
end
local answer = "1 " .. now_text .. " " .. math.min(left_ms, 2592000000)
if ARGV[6] then
    -- @include wanted
    return answer .. wanted
end
return answer
