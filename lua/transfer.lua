-- Hand a lock on to a waiter of the same client, which relies on it already: its client has told it when this
-- call was put behind all others on their connection.
--
-- Safe to repeat. Where the lock is not the releaser's any more, the waiter gets nothing, and nothing of its
-- request is left: neither its place in the queue, nor what a poll may have granted it meanwhile.
--
-- @keys lock queue requests live fence
-- @args nonce random acquirer nonce_of_next host ttl_ms token ...
--
-- acquirer, nonce_of_next, host, ttl_ms, token: of the waiter. Further arguments are its metadata.
-- Returns "4 0 ttl_left_ms": handed on, by this call or an earlier one; else what leave.lua says of nonce_of_next.
-- An error where nothing is granted for a while: then the lock is to be released as any other.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local random, acquirer, nonce, host, ttl_ms, token = unpack(ARGV, 2, 7)
local held = call("HMGET", lock, "rql_nonce", "rql_token", "rql_claim")

if held[1] == nonce and held[2] == token and not held[3] then
    return "4 0 " .. math.min(call("PTTL", lock), 2592000000)
end
-- @include clock
if held[1] == ARGV[1] then
    -- @include ttl
    -- @include fence
    if is_paused then
        return redis.error_reply("BUSY nothing is granted for a while")
    end
    -- Other locks may have had larger tokens; those of this one rise also where the clock is set back.
    if before and not is_less(before, token) then
        call("SET", fence, before)
    end
    local asked, access = string.match(call("HGET", requests, acquirer) or "", "^%S+ %d+ (%x+) %d+ (%a)")
    call("DEL", lock) -- whatever is in it is of the one before
    call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
         "rql_nonce", nonce, "rql_token", token, unpack(ARGV, 8))
    if redis.pcall("PEXPIRE", lock, ttl_ms) ~= 1 then
        call("DEL", lock)
        return redis.call("PEXPIRE", lock, ttl_ms)
    end
    -- Its acquirer may have refused this hand-over, and wait by another nonce.
    if asked == nonce then
        call("ZREM", queue, acquirer)
        call("HDEL", requests, acquirer)
        -- It is counted nowhere but as one of an acquirer that holds other locks.
        if access == "Q" and call("HINCRBY", requests, "holders", -1) < 1 then
            call("HDEL", requests, "holders")
        end
    end
    return "4 0 " .. ttl_ms
end
-- @include withdraw
