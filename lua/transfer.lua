-- Hand a lock on to a waiter of the same client, which relies on it already: its client has told it when this
-- call was put behind all others on their connection. Several hand-overs in a row may be one call.
--
-- Safe to repeat. Where the lock is not the releaser's any more, the waiter gets nothing, and nothing of its
-- request is left: neither its place in the queue, nor what a poll may have granted it meanwhile.
--
-- @keys lock queue requests live fence
-- @args nonce random acquirer nonce_of_next host ttl_ms token n_words ...
--
-- acquirer and nonce_of_next: of the waiter. Behind them may be more such pairs, each of the waiter that the one
-- before has handed the lock on to. Of the last are host, ttl_ms, token, further arguments, which are metadata, and
-- at the very end n_words, which says how many those are.
-- Returns "4 0 ttl_left_ms": handed on, by this call or an earlier one; else what leave.lua says of nonce_of_next.
-- "5 0": several were to be told together, and nothing was done. An error where nothing is granted for a while: then
-- the lock is to be released as any other.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local random, acquirers, nonces = ARGV[2], {}, {}
local behind = #ARGV - 3 - ARGV[#ARGV] -- what is of the last alone
for i = 3, behind - 1, 2 do
    acquirers[#acquirers + 1], nonces[#nonces + 1] = ARGV[i], ARGV[i + 1]
end
local acquirer, nonce, host, ttl_ms, token = unpack(ARGV, behind - 2, behind + 2)
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
    local records = call("HMGET", requests, unpack(acquirers))
    call("DEL", lock) -- whatever is in it is of the one before
    call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
         "rql_nonce", nonce, "rql_token", token, unpack(ARGV, behind + 3, #ARGV - 1))
    if redis.pcall("PEXPIRE", lock, ttl_ms) ~= 1 then
        call("DEL", lock)
        return redis.call("PEXPIRE", lock, ttl_ms)
    end
    local gone, n_holders = {}, 0
    for i, record in ipairs(records) do
        local asked, access = string.match(record or "", "^%S+ %d+ (%x+) %d+ (%a)")
        -- Its acquirer may have refused this hand-over, and wait by another nonce.
        if asked == nonces[i] then
            gone[#gone + 1] = acquirers[i]
            -- It is counted nowhere but as one of an acquirer that holds other locks.
            if access == "Q" then
                n_holders = n_holders + 1
            end
        end
    end
    if gone[1] then
        call("ZREM", queue, unpack(gone))
        call("HDEL", requests, unpack(gone))
    end
    if n_holders > 0 and call("HINCRBY", requests, "holders", -n_holders) < 1 then
        call("HDEL", requests, "holders")
    end
    return "4 0 " .. ttl_ms
elseif nonces[2] then
    return "5 0"
end
-- @include withdraw
