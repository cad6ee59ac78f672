-- Included by every script that grants: how a lock is written.
--
-- Uses clock.lua, and call, lock and fence of the including script.

-- Writes the lock, to live for lease_ms; further arguments are names and values of more fields. Returns
-- its token, as text: above every earlier one, also after the server lost data (F-26).
local function grant(acquirer, host, ttl_ms, nonce, lease_ms, ...)
    local token = now_text
    local last = call("SET", fence, token, "GET")
    local is_ahead = last and (#last > #token or (#last == #token and last >= token))
    if is_ahead and tonumber(last) then
        token = string.format("%.0f", last + 1)
        call("SET", fence, token)
    end
    call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
         "rql_nonce", nonce, "rql_token", token, ...)
    call("PEXPIRE", lock, lease_ms)
    return token
end
