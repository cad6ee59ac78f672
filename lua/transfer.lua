-- Hands a lock on to a waiter of the same client. The waiter relies on the lock already: its client notified it
-- when this call was put behind all others on their connection.
--
-- Idempotent. If the lock is no longer the releaser's, the waiter gets nothing, and nothing of its request is
-- left: neither its place in the queue, nor a lock that a poll may have granted to it in the meantime.
--
-- @keys lock queue requests live fence
-- @args nonce random acquirer nonce_of_next host ttl_ms token ...
--
-- acquirer, nonce_of_next, host, ttl_ms, token: of the waiter. Further arguments are its metadata.
-- Returns "4 0 ttl_left_ms": handed on, by this call or an earlier one; else the answer of leave.lua for
-- nonce_of_next. Returns an error in a pause, when nothing is granted: the client then releases the lock like any
-- other.

local call = redis.call
local lock, queue, requests, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local random, acquirer, nonce, host, ttl_ms, token = unpack(ARGV, 2, 7)
local held = call("HMGET", lock, "rql_nonce", "rql_token", "rql_claim")

if held[1] == nonce and held[2] == token and not held[3] then
    return "4 0 " .. math.min(call("PTTL", lock), 2592000000)
end
-- @include clock
if held[1] == ARGV[1] then
    -- @include ttl
    local asked, access = string.match(call("HGET", requests, acquirer) or "", "^%S+ %d+ (%x+) %d+ (%a)")
    -- @include fence
    if is_paused then
        return redis.error_reply("BUSY nothing is granted for a while")
    end
    -- Other locks may have had larger tokens; the largest one stays. The tokens of this lock rise even if the
    -- server's clock was set back.
    if before and not is_less(before, token) then
        call("SET", fence, before)
    end
    call("DEL", lock) -- all its fields are the previous owner's
    call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
         "rql_nonce", nonce, "rql_token", token, unpack(ARGV, 8))
    if redis.pcall("PEXPIRE", lock, ttl_ms) ~= 1 then
        call("DEL", lock)
        return redis.call("PEXPIRE", lock, ttl_ms)
    end
    -- The acquirer may have refused this hand-over, and wait under another nonce.
    if asked == nonce then
        redis.pcall("ZREM", queue, acquirer) -- a foreign type has no place of it, and the lock is handed on
        call("HDEL", requests, acquirer)
        -- The request is counted nowhere but among those of acquirers that hold other locks.
        if access == "Q" and call("HINCRBY", requests, "holders", -1) < 1 then
            call("HDEL", requests, "holders")
        end
    end
    return "4 0 " .. ttl_ms
end
-- @include waiters
-- @include serving
-- @include serve_queue
-- @include extension
-- @include withdraw

return withdraw(KEYS, now_text, now_seconds, acquirer, nonce, random)
