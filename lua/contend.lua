-- Included by acquire.lua where the lock is held or has a queue: answers, or leaves the lock to be taken,
-- without a request.
--
-- Uses clock.lua, and what acquire.lua has.

-- @include waiters

local access, conflict, fail_fast, wait_ms, known_us, more_at =
    string.match(ARGV[6], "^(%a)(%a)(.) (%-?%d+) (%d+) ()")
local owner = call("HGET", lock, "acq_id")
local holder = owner == acquirer and call("HGET", lock, "rql_nonce")
local mine = call("HGET", requests, acquirer)

local function refuse(why, at)
    return why .. " " .. at .. " " .. redis.call("PTTL", KEYS[1])
end

if holder and (holder == nonce or conflict == "t" or conflict == "e") then
    -- @include holding
elseif owner == acquirer and conflict == "d" then
    drop(queue, requests, acquirer)
    return refuse("4", now_text)
elseif owner and fail_fast == "f" then
    return refuse("2", now_text)
elseif owner or access ~= "r" then
    -- @include stand
end
drop(queue, requests, acquirer)
