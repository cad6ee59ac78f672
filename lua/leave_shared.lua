-- Withdraws a request for a share in any state: takes it out of the queue, or gives back its share. This is also how a
-- share is released.
--
-- @keys lock queue requests live fence shares
-- @args acquirer nonce random
-- Returns what leave.lua returns, and does the same as leave.lua if there is no such share: a lock of one is held like
-- any other.

local call, keys = redis.call, KEYS
local acquirer, nonce, random = ARGV[1], ARGV[2], ARGV[3]
local held = redis.pcall("HMGET", keys[1], "rql_nonce", "rql_used", "rql_slots", "rql_h:" .. acquirer)

if held[1] == nonce and call("EXISTS", keys[2], keys[3]) == 0 then
    call("DEL", keys[1])
    return "2 0"
end
-- @include clock
-- @include remove_shares

local group
if (held[4] or ""):sub(1, 32) == nonce then
    -- @include end_shares
    group = {used = held[2] + 0, map = held[3] or ""}
    end_shares(group, keys, now_text, {acquirer}, {held[4]})
    if call("EXISTS", keys[2], keys[3]) == 0 then
        return "2 0" -- there is no waiter
    end
end
-- @include waiters
-- @include serving

if group and group.used then
    -- @include join
    -- @include admit
    return admit(group, keys, now_text).n_admitted > 0 and "2 1" or "2 0"
end
-- @include serve_queue

if group then
    return "2 " .. select(4, serve(keys, now_text, now_seconds, random))
end
-- @include extension
-- @include withdraw

return withdraw(keys, now_text, now_seconds, acquirer, nonce, random)
