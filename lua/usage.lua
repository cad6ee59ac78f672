-- Adds holds that have ended to the usage of a day (lua/optional.md 73).
--
-- @keys usage
-- @args mode dropped sums
-- A sum is "length holds held_us waited_us lost " and a field of so many bytes; sums has one or more of them. dropped is
-- how many holds the client has left out. Returns the number of fields.

local call, usage, sums = redis.call, KEYS[1], ARGV[3]
local MOST, TTL_MS = 2000, 3024000000 -- 35 days

local function split(value)
    local holds, held, waited, lost = string.match(value or "", "^(%d+) (%d+) (%d+) (%d+)$")
    return (holds or 0) + 0, (held or 0) + 0, (waited or 0) + 0, (lost or 0) + 0
end

-- Adds to the field, or to the one of all others when there are enough fields.
local function add(field, value)
    local before = call("HGET", usage, field)
    if not before and call("HLEN", usage) >= MOST then
        field = "other"
        before = call("HGET", usage, field)
    end
    local holds, held, waited, lost = split(value)
    local holds_before, held_before, waited_before, lost_before = split(before)
    call("HSET", usage, field, string.format("%.0f %.0f %.0f %.0f", holds_before + holds, held_before + held,
                                             waited_before + waited, lost_before + lost))
end

call("HSET", usage, "mode", ARGV[1])
call("HINCRBY", usage, "dropped", ARGV[2])
local at = 1
while at <= #sums do
    local _, last, length, value = string.find(sums, "^(%d+) (%d+ %d+ %d+ %d+) ", at)
    at = last + length + 1
    add(string.sub(sums, last + 1, at - 1), value)
end
call("PEXPIRE", usage, TTL_MS)
return call("HLEN", usage)
