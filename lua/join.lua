-- after: clock
-- out: join

-- Adds a share to a lock that is shared. A lock of one becomes a lock of several, in which its owner has a share like
-- all others. sharer: {acquirer, host, ttl_ms, nonce, lease_ms, mark: "c" if another call admits it and it has not
-- called since, else "-"; units, limit, asks: "s" for slots; metadata: packed, without its share}.
--
-- The TTL is written last: the end of the lock may have come just now, and a write behind it would make a lock without
-- one. Returns the token and, for an answer or a push, its slots behind a blank, or "" if it asks for none. The slots
-- are the lowest free ones. They are below the limit, because no more slots are taken than units are in use. In a pause
-- it returns nothing and does nothing.
local function join(group, keys, now_text, sharer)
    local call, lock, fence, shares = redis.call, keys[1], keys[5], keys[6]
    local life_ms, own_units, word = sharer.lease_ms, sharer.units, ""
    -- @include take_slots
    -- @include token
    if not token then
        return
    end
    if group.is_of_one then
        local OF_OWNER = "|acq_id|hst_id|ts|ini_ttl|spc_cnt|l_spc_ts|spc_ext_ttl|l_spc_ext_ts|l_spc_ext_ini_ttl" ..
            "|rql_nonce|rql_token|rql_claim|rql_spc|rql_share|rql_asked|" -- all other fields are metadata
        local left_ms, flat, of, metadata = call("PTTL", lock), call("HGETALL", lock), {}, {}
        for i = 1, #flat, 2 do
            of[flat[i]] = flat[i + 1]
            if not OF_OWNER:find("|" .. flat[i] .. "|", 1, true) then
                metadata[#metadata + 1] = flat[i]
                metadata[#metadata + 1] = flat[i + 1]
            end
        end
        local units, limit, asks = of.rql_share:match("^(%d+) (%d+)(s?)$")
        if asks == "s" then
            local first
            group.map, first = take_slots("", units)
            units = units .. ":" .. first
        end
        call("DEL", lock, shares) -- Ruby's unlock of an earlier lock of several left the key of shares
        call("ZADD", shares, string.format("%.0f", now_text + left_ms * 1000), of.acq_id)
        call("HSET", lock, "acq_id", "rql:acq:shared/0/0/0/00000000000000000000000000000000",
             "hst_id", "rql:hst:shared/0/0/00000000000000000000000000000000", "ts", of.ts, "ini_ttl", of.ini_ttl,
             "rql_nonce", "shared", "rql_h:" .. of.acq_id, of.rql_nonce .. " " .. units .. " " .. limit .. " " ..
             of.rql_token .. " " .. of.ini_ttl .. " " .. (of.rql_claim and "c" or "-") .. " " .. of.hst_id .. " " ..
             (metadata[1] and cmsgpack.pack(metadata) or ""))
        if of.rql_asked then
            call("HSET", lock, "rql_asked", of.rql_asked)
        end
        group.is_of_one = false
        life_ms = math.max(left_ms, life_ms)
    end
    if sharer.asks == "s" then
        local slots
        group.map, slots = take_slots(group.map, own_units)
        own_units, word = own_units .. ":" .. slots, " " .. slots
    end
    group.used = group.used + sharer.units
    call("ZADD", shares, string.format("%.0f", now_text + sharer.lease_ms * 1000), sharer.acquirer)
    local field = sharer.nonce .. " " .. own_units .. " " .. sharer.limit .. " " .. token .. " " .. sharer.ttl_ms .. " " ..
        sharer.mark .. " " .. sharer.host .. " " .. sharer.metadata
    if group.map == "" then
        call("HSET", lock, "rql_used", group.used, "rql_h:" .. sharer.acquirer, field)
    else
        call("HSET", lock, "rql_used", group.used, "rql_slots", group.map, "rql_h:" .. sharer.acquirer, field)
    end
    -- @include keep_for
    return token, word
end
