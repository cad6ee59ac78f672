-- Included by every script that ends what dead hosts left behind.
--
-- Uses call, hosts and suspects of the including script.

-- Declared dead, and silent ever since: a probe that came later voids the verdict.
local function is_dead_host(host)
    local record = call("HGET", suspects, host)
    local value = record and string.match(record, "^%d+ D (.*)$")
    return value ~= nil and value ~= false and call("HGET", hosts, host) == value
end
