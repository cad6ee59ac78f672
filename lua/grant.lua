-- Included by every script that grants: how a lock is written.
--
-- Uses call, lock, fence and now of the including script.

-- @include seconds

-- A token above every earlier one, also after the server lost data (F-26).
local function mint()
    local token = now
    local last = tonumber(call("SET", fence, string.format("%.0f", now), "GET") or 0)
    if last and last >= now then
        token = last + 1
        call("SET", fence, string.format("%.0f", token))
    end
    return token
end

-- Writes the lock. meta is a flat list of names and values; claim marks a hand-over.
local function grant(acquirer, host, ttl_ms, nonce, lease_ms, meta)
    local token = mint()
    local fields = {"acq_id", acquirer, "hst_id", host, "ts", seconds(now), "ini_ttl", ttl_ms}
    for i = 1, #meta do
        fields[#fields + 1] = meta[i]
    end
    fields[#fields + 1] = "rql_nonce"
    fields[#fields + 1] = nonce
    fields[#fields + 1] = "rql_token"
    fields[#fields + 1] = string.format("%.0f", token)
    if lease_ms < tonumber(ttl_ms) then
        fields[#fields + 1] = "rql_claim"
        fields[#fields + 1] = "1"
    end
    call("HSET", lock, unpack(fields))
    call("PEXPIRE", lock, lease_ms)
    return token
end
