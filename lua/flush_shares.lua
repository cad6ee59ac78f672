-- Ends the shares of dead hosts in a lock of several, one page per call, and admits waiters in their place.
--
-- @keys lock queue requests live fence shares hosts suspects
-- @args from random
-- Returns {number removed, served, place to go on from or -1, number of shares, now_us} and behind that acquirer, token
-- and units of each that was removed; served: lua/README.md 9.

local call, keys, random = redis.call, KEYS, ARGV[2]
local lock, shares = keys[1], keys[6]
local from = tonumber(ARGV[1])
local PAGE = 40 -- takes less than 1 ms
local held = call("HMGET", lock, "rql_used", "rql_slots")
local length, sharers = call("ZCARD", shares), call("ZRANGE", shares, from, from + PAGE - 1)
if not held[1] or not sharers[1] then
    return {0, 0, -1, length} -- Ruby's unlock leaves the key of shares behind
end
-- @include clock
-- @include is_dead_host

local group = {used = held[1] + 0, map = held[2] or ""}
local names, dead, answer = {}, {}, {}
for i = 1, #sharers do
    names[i] = "rql_h:" .. sharers[i]
end
for i, field in ipairs(call("HMGET", lock, unpack(names))) do
    local units, token, host = string.match(field or "", "^%x+ (%d+)%S* %d+ (%d+) %d+ . (%S+) ")
    if host and is_dead_host(keys[7], keys[8], host) then
        dead[#dead + 1] = sharers[i]
        answer[3 * #dead - 2], answer[3 * #dead - 1], answer[3 * #dead] = sharers[i], token, units
    end
end
local next_from = #sharers < PAGE and -1 or from + PAGE - #dead
if not dead[1] then
    return {0, 0, next_from, length}
end
-- @include remove_shares
-- @include end_shares
end_shares(group, keys, now_text, dead)
-- @include free_shares
return {#dead, tonumber(served), group.used and next_from or -1, length, now_text, unpack(answer)}
