-- For scripts that end what dead hosts left behind.
--
-- in: call hosts suspects
-- out: is_dead_host

-- Declared dead, and silent ever since: a probe that came later voids that.
local function is_dead_host(host)
    local record = call("HGET", suspects, host)
    local value = record and string.match(record, "^%d+ D (.*)$")
    return value ~= nil and value ~= false and call("HGET", hosts, host) == value
end
