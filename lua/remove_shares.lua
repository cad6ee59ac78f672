-- A group is what scripts know of a lock that is shared: used: the units in use, nil if the lock is free or is not
-- shared; map: the slots that are taken, see take_slots.lua; is_of_one: one sharer holds it, as any owner; owner: the
-- acquirer of a lock of one.
--
-- out: remove_shares

-- Removes the shares of these acquirers from a lock of several, with their units and slots. Deletes the lock if these
-- were the last ones. A lock must not be written after that: it would have no TTL. fields: those of the shares, if the
-- caller has read them.
local function remove_shares(group, keys, acquirers, fields)
    local call, lock, shares = redis.call, keys[1], keys[6]
    local names, gone = {}, ""
    for i = 1, #acquirers do
        names[i] = "rql_h:" .. acquirers[i]
    end
    for _, field in ipairs(fields or call("HMGET", lock, unpack(names))) do
        local units, slots = string.match(field or "", "^%x+ (%d+):?(%S*)")
        group.used = group.used - (units or 0)
        gone = gone .. (slots or "") .. ","
    end
    if group.map ~= "" then
        -- @include free_slots
        group.map = free_slots(group.map, gone)
    end
    if group.used <= 0 then
        group.used, group.owner = nil, nil
        call("DEL", lock, shares)
        return
    end
    call("ZREM", shares, unpack(acquirers))
    call("HDEL", lock, unpack(names))
    if group.map == "" then
        call("HSET", lock, "rql_used", group.used)
    else
        call("HSET", lock, "rql_used", group.used, "rql_slots", group.map)
    end
end
