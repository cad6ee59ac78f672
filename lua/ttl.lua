-- Refuses a ttl that is not 1 to 2592000000 ms. PEXPIRE would refuse a bad ttl only after the lock was written.
--
-- in: ttl_ms

if not ttl_ms:find("^[1-9]%d*$") or #ttl_ms > 10 or (#ttl_ms == 10 and ttl_ms > "2592000000") then
    return redis.error_reply("ERR ttl out of range")
end
