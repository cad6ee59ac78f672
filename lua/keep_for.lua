-- Lets a lock of several, and the ends of its shares, live for at least life_ms.
--
-- in: call lock shares life_ms

if call("PTTL", lock) - life_ms < 0 then
    call("PEXPIRE", lock, life_ms)
    call("PEXPIRE", shares, life_ms)
end
