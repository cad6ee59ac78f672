-- This function is for scripts that remove what dead hosts left behind.
--
-- out: is_dead_host

-- Returns whether the host was declared dead and has been silent since then: a later probe voids the declaration.
local function is_dead_host(hosts, suspects, host)
    local record = redis.call("HGET", suspects, host)
    local value = record and string.match(record, "^%d+ D (.*)$")
    return value ~= nil and value ~= false and redis.call("HGET", hosts, host) == value
end
