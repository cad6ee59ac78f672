-- lua/extension.lua
-- Included by every script that ends an extendable re-entry: what it added goes, what was promised stays.
--
-- Uses call, lock and now of the including script.

-- Returns what is left of the lock in ms; 0: it has ended. rql_end is its end without extensions.
local function take_back(ms)
    local left = call("PTTL", lock)
    local promised = math.ceil((tonumber(call("HGET", lock, "rql_end") or 0) - now) / 1000)
    left = math.min(left, math.max(left - ms, promised))
    if left > 0 then
        call("PEXPIRE", lock, left)
        return left
    end
    call("DEL", lock)
    return 0
end
