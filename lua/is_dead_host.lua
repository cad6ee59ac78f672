-- This function is for scripts that remove what dead hosts left behind.
--
-- in: call hosts suspects
-- out: is_dead_host

-- Returns whether the host was declared dead and has been silent since then: a later probe voids the declaration.
local function is_dead_host(host)
    local record = call("HGET", suspects, host)
    local value = record and string.match(record, "^%d+ D (.*)$")
    return value ~= nil and value ~= false and call("HGET", hosts, host) == value
end
