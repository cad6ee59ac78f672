-- Included where a lock is free: serves its queue (protocol.md 1 to 6). What somebody else has put under the
-- queue's key counts as an empty one: an error here would hide what the script has done to the lock.
--
-- Uses clock.lua, waiters.lua and alive.lua, and of the including script call, lock, queue, requests, live, fence and
-- chance; me and oldest_us, nil unless it acts for a waiter, whose turn it may be; and turn, which is nil at
-- first. Leaves turn: "granted", "mine", "free", or "again" if the dead were too many for one call (who is
-- only skipped does not count, the next call would skip them as well); and for answers served: 0 nobody was,
-- 1 it was handed over, 2 ask again.

local GRACE_US = 2000000 -- a Ruby waiter at the head of a free lock gets this long to take it
local CLAIM_MS = "1000" -- G: a lock handed over lives this long until its owner is heard of
local AT_ONCE = 32
local GONE, PASSED, SKIPPED = 1, 0.1, 4 -- what a turn costs
local deaf = {}
local page = redis.pcall("ZRANGE", queue, "0", "0") -- it is mostly the first's turn
local at, width = 0, 1

if chance + 0 < 32768 and page[1] and call("HGET", requests, "random") then
    -- @include luck
end
repeat
    for i = 1, #page do
        local waiter, cost = page[i], GONE
        local identity = identity_of(waiter)
        if not identity then
            -- @include ruby_turn
        elseif deaf[identity] and waiter ~= me then
            cost = PASSED
        else
            -- @include our_turn
        end
        if turn then
            break
        elseif cost == GONE then
            drop(queue, requests, waiter)
            n_gone = n_gone + 1
        elseif width > 0 then
            at = at + 1
        end
        budget = budget - cost
        if budget <= 0 then
            turn = n_gone > 0 and "again" or "free"
            break
        end
    end
    if not turn and #page < width then
        turn = "free"
    elseif not turn then
        width = width == 0 and 1 or AT_ONCE
        page = call("ZRANGE", queue, at, at + width - 1)
    end
until turn
local served = turn == "granted" and "1" or turn == "again" and "2" or "0"
