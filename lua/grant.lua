-- Included where a lock is granted: writes it, to live for lease_ms.
--
-- Uses clock.lua, and of the including script call, lock, fence, acquirer, host, ttl_ms, nonce, lease_ms, and
-- fields: names and values of more fields, from first_field on. Leaves its token, as text: above every
-- earlier one, also after the server lost data (F-26).

local token = now_text
local last = call("SET", fence, token, "GET")
if last and not is_less(last, token) and tonumber(last) then
    token = string.format("%.0f", last + 1)
    call("SET", fence, token)
end
call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
     "rql_nonce", nonce, "rql_token", token, unpack(fields, first_field))
if redis.pcall("PEXPIRE", lock, lease_ms) ~= 1 then
    call("DEL", lock) -- the right to may be missing: a lock without ttl would stay for ever (F-24)
    return redis.call("PEXPIRE", lock, lease_ms) -- the error, out of whatever function includes this
end
