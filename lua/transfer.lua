-- Hand a lock on to a waiter of the same client, which relies on it already: its client has told it when this
-- call was put behind all others on their connection.
--
-- Safe to repeat. Where the lock is not the releaser's any more, the waiter gets nothing, and nothing of its
-- request is left: neither its place in the queue, nor what a poll may have granted it meanwhile.
--
-- @keys lock queue requests live fence
-- @args nonce acquirer host ttl_ms nonce_of_next token random ...
--
-- acquirer, host, ttl_ms, token and further arguments, which are metadata: of the waiter.
-- Returns "4 0 ttl_left_ms": handed on, by this call or an earlier one; else what leave.lua says of nonce_of_next.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local acquirer, host, ttl_ms, nonce, token, random = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local held = call("HMGET", lock, "rql_nonce", "rql_token", "rql_claim")

if held[1] == nonce and held[2] == token and not held[3] then
    return "4 0 " .. math.min(call("PTTL", lock), 2592000000)
end
-- @include clock
local is_handed_on = held[1] == ARGV[1]
if is_handed_on then
    -- @include fence
    -- Other locks may have had larger tokens; those of this one rise also where the clock is set back.
    if before and not is_paused and not is_less(before, token) then
        call("SET", fence, before)
    end
    is_handed_on = not is_paused
end
if is_handed_on then
    -- @include ttl
    local record = call("HGET", requests, acquirer)
    call("DEL", lock) -- whatever is in it is of the one before
    call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
         "rql_nonce", nonce, "rql_token", token, unpack(ARGV, 8))
    if redis.pcall("PEXPIRE", lock, ttl_ms) ~= 1 then
        call("DEL", lock)
        return redis.call("PEXPIRE", lock, ttl_ms)
    end
    -- Its acquirer may have refused this hand-over, and wait by another nonce.
    if record and string.find(record, " " .. nonce .. " ", 1, true) then
        call("ZREM", queue, acquirer)
        call("HDEL", requests, acquirer)
        -- It is counted nowhere but as one of an acquirer that holds other locks.
        if string.find(record, "^%S+ %d+ %x+ %d+ Q") and call("HINCRBY", requests, "holders", "-1") < 1 then
            call("HDEL", requests, "holders")
        end
    end
    return "4 0 " .. ttl_ms
end
-- @include withdraw
