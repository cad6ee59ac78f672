-- Ends the share that an acquirer has in a lock of several, and admits waiters in its place.
--
-- @keys lock queue requests live fence shares
-- @args acquirer host is_dry random
-- Returns what sweep_lock.lua does, of the share, with an empty reason and its units behind that.

local call, keys, acquirer, random = redis.call, KEYS, ARGV[1], ARGV[4]
local held = call("HMGET", keys[1], "rql_used", "rql_slots", "rql_h:" .. acquirer)
local nonce, units, token, host = string.match(held[3] or "", "^(%x+) (%d+)%S* %d+ (%d+) %d+ . (%S+) ")

if not nonce or host ~= ARGV[2] then
    return "0 0"
elseif ARGV[3] == "1" then
    return "1 0"
end
-- @include clock
-- @include remove_shares
-- @include end_shares
local group = {used = held[1] + 0, map = held[2] or ""}
end_shares(group, keys, now_text, {acquirer}, {held[3]})
-- @include free_shares
local held_us = string.format("%.0f", math.max(0, now_text - token))
return {1, tonumber(served), acquirer, nonce, token, now_text, held_us, "", units}
