-- Included by acquire.lua where the lock is held or has a queue: answers, or leaves the lock to be taken,
-- without a request.
--
-- Uses clock.lua, and what acquire.lua has; n_keys, how many of lock, queue and requests there are.

-- @include waiters
-- @include is_alive

local access, conflict, fail_fast, wait_ms, known_us, more_at =
    string.match(ARGV[6], "^(%a)(%a)(.) (%-?%d+) (%d+) ()")
local is_random = access == "r" or access == "R"
local owner = call("HGET", lock, "acq_id")
local holder = owner == acquirer and call("HGET", lock, "rql_nonce")
local mine = call("HGET", requests, acquirer)

-- PTTL of a lock, no longer than any of ours: a long number would get an exponent in an answer.
local function ttl_left(lock)
    return math.min(redis.call("PTTL", lock), 2592000000)
end

if holder and (holder == nonce or conflict == "t" or conflict == "e") then
    -- @include reenter
elseif owner == acquirer and conflict == "d" then
    call("ZREM", queue, acquirer)
    forget(requests, acquirer, mine and select(5, read_record(mine)))
    return "4 " .. now_text .. " " .. ttl_left(lock)
elseif owner and fail_fast == "f" then
    return "2 " .. now_text .. " " .. ttl_left(lock)
elseif owner or not is_random then
    -- @include enqueue
elseif mine then
    access = select(5, read_record(mine)) -- of an earlier request
end
call("ZREM", queue, acquirer)
forget(requests, acquirer, access)
