-- Refuses a ttl that PEXPIRE would only refuse after the lock was written.
--
-- in: ttl_ms

if not ttl_ms:find("^[1-9]%d*$") or #ttl_ms > 10 or (#ttl_ms == 10 and ttl_ms > "2592000000") then
    return redis.error_reply("ERR ttl out of range")
end
