-- Included by every script that grants or extends for a ttl: refuses one that PEXPIRE would only refuse
-- after the lock was written (F-11).
--
-- Uses clock.lua, and ttl_ms of the including script.

if not string.find(ttl_ms, "^[1-9]%d*$") or is_less("2592000000", ttl_ms) then
    return redis.error_reply("ERR ttl out of range")
end
