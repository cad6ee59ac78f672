-- Ends the shares of dead hosts in a lock of several, one page per call, and admits waiters in their place.
--
-- @keys lock queue requests live fence shares hosts suspects
-- @args cursor random
-- The pages are those of HSCAN over the lock, from the cursor 0 on. They have each share that is there from the first
-- to the last page. Pages by rank in the key of shares would skip some when a sharer leaves or renews between them.
-- Returns {number removed, served, next cursor or -1, number of shares, now_us} and behind that acquirer, token and
-- units of each that was removed; served: lua/README.md 9.

local call, keys, random = redis.call, KEYS, ARGV[2]
local lock, shares = keys[1], keys[6]
local PAGE = 40 -- takes less than 1 ms
local held, length = call("HMGET", lock, "rql_used", "rql_slots"), call("ZCARD", shares)
if not held[1] then
    return {0, 0, -1, length} -- Ruby's unlock leaves the key of shares behind
end
-- @include clock
-- @include is_dead_host

local group = {used = held[1] + 0, map = held[2] or ""}
local page = call("HSCAN", lock, ARGV[1], "COUNT", PAGE)
local next_cursor, entries = page[1] == "0" and -1 or tonumber(page[1]), page[2]
local dead, fields, answer = {}, {}, {}
for i = 1, #entries, 2 do
    local acquirer, field = entries[i]:match("^rql_h:(.*)$"), entries[i + 1]
    local units, token, host = field:match("^%x+ (%d+)%S* %d+ (%d+) %d+ . (%S+) ")
    if acquirer and host and is_dead_host(keys[7], keys[8], host) then
        dead[#dead + 1], fields[#fields + 1] = acquirer, field
        answer[3 * #dead - 2], answer[3 * #dead - 1], answer[3 * #dead] = acquirer, token, units
    end
end
if not dead[1] then
    return {0, 0, next_cursor, length}
end
-- @include remove_shares
-- @include end_shares
end_shares(group, keys, now_text, dead, fields)
-- @include free_shares
return {#dead, tonumber(served), group.used and next_cursor or -1, length, now_text, unpack(answer)}
