-- Refuses a ttl that PEXPIRE would only refuse after the lock was written.
--
-- in: ttl_ms is_less

if not string.find(ttl_ms, "^[1-9]%d*$") or is_less("2592000000", ttl_ms) then
    return redis.error_reply("ERR ttl out of range")
end
