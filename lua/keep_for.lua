-- Lets a lock of several, and the ends of its shares, live for at least life_ms. An operator may have moved the end of
-- the lock alone.
--
-- in: call lock shares life_ms

if call("PTTL", lock) - life_ms < 0 or call("PTTL", shares) - life_ms < 0 then
    call("PEXPIRE", lock, life_ms)
    call("PEXPIRE", shares, life_ms)
end
