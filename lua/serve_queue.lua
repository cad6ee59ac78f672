-- Included where a lock is free: serves its queue. What somebody else has put under the queue's key counts as
-- an empty one: an error here would hide what the script has done to the lock.
--
-- Who cannot be served leaves the queue, the dead and those whose client hears nothing: whatever is in front
-- of a waiter that can be served is passed once, not by each call again. Who lives puts itself back in its
-- old place with its next poll, which is due as soon as its client hears again.
--
-- Uses clock.lua, waiters.lua and is_alive.lua, and of the including script call, lock, queue, requests, live,
-- fence and random; unless it acts for a waiter nil: me, whose turn it may be, oldest_us, holds, whether it is
-- marked as holding something, and yields, whether it cannot take the lock now; and turn, free_ms and passed,
-- which are nil at first. Leaves turn: "granted", "mine", "free", or "again" if there was too much to do for one
-- call; free_ms, if the lock stays free for somebody: for how long; passed, if it was reserved for another; and
-- for answers served: 0 nobody was, 1 it was handed over, 2 ask again.

local GRACE_US = 2000000 -- a Ruby waiter at the head of a free lock gets this long to take it
local CLAIM_MS = "1000" -- G: a lock handed over lives this long until its owner is heard of
local AT_ONCE = 32
local DEAD, SILENT, KEPT = 1, 3, 0.1 -- what a turn costs
local silent, hears_all, n_dropped = {}, true, 0
local reserved_for, may_pass, serves_marked, if_passed, if_marked -- see reserve.lua
local n_rubies = 0 -- that were passed; 2: or more
local page = redis.pcall("ZRANGE", queue, "0", "0") -- it is mostly the first's turn
local at, width = 0, 1

if not page[1] and not page.err then
    local n_there = 0
    -- @include restore
    page = call("ZRANGE", queue, "0", "0")
end
if random + 0 < 32768 and page[1] and call("HGET", requests, "random") then
    -- @include random
end
repeat
    for i = 1, #page do
        local waiter, cost = page[i], DEAD
        local record = waiter ~= me and call("HGET", requests, waiter)
        local host, ttl_ms, nonce, until_us, access, score_us, meta_at
        if record then
            host, ttl_ms, nonce, until_us, access, score_us, meta_at = read_record(record)
        end
        if waiter == me and n_rubies > 0 then
            -- @include last_ruby
        end
        if turn then
            cost = 0
        elseif waiter == me and yields and reserved_for then
            cost = KEPT
        elseif waiter == me and yields then
            -- @include reserve
        elseif waiter == me then -- who asks is alive
            turn = (not reserved_for or may_pass) and "mine" or "free"
        elseif host then
            -- @include our_turn
        elseif reserved_for and not may_pass then
            cost = KEPT -- who holds something may stand behind this Ruby
        else
            -- @include ruby_turn
        end
        if turn then
            break
        elseif cost == KEPT then
            at = at + 1
        else
            call("ZREM", queue, waiter)
            forget(requests, waiter, access)
            n_dropped = n_dropped + 1
        end
        budget = budget - cost
        if budget <= 0 then
            turn = n_dropped > 0 and "again" or "free"
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
passed = reserved_for and (turn == "granted" or turn == "mine") and (may_pass and if_passed or if_marked)
if passed and turn == "granted" then
    call("HSET", requests, "series", passed)
end
local served = turn == "granted" and "1" or turn == "again" and "2" or "0"
