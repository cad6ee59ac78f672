-- Serves the queue of a free lock. A key of a foreign type in place of the queue counts as an empty queue,
-- because an error here would hide what the script has done to the lock.
--
-- A waiter that cannot be served is removed from the queue: a dead waiter, or one whose client receives nothing.
-- So each waiter in front of one that can be served is passed once, and not by each call again. If a removed
-- waiter is alive, its next poll restores its old place. That poll is due as soon as its client receives again.
--
-- in: call lock queue requests live fence random now_text now_seconds is_less budget
-- in: read_record whole_host identity_of forget pause_end restore notify is_alive
-- in: me holds yields turn free_ms passed
-- out: served
--
-- me is the waiter that the script acts for and that may take the lock. holds: me is marked as holding
-- something. yields: me cannot take the lock now; if yields is "aside", me gives up its reservation as well. All
-- are nil in a script that acts for no waiter. turn, free_ms and passed are nil before and are set here:
-- turn     "granted" to another; "mine"; "free": the lock stays free; "again": too much to do for one call
-- free_ms  how long the lock stays free for a waiter, or in a pause for none
-- passed   the new mark "series" if a series was passed, see reserve.lua
-- served   for answers: 0 no waiter was served, 1 the lock was handed over, 2 call again

local GRACE_US = 2000000 -- a Ruby waiter at the head gets this long to take a free lock
local CLAIM_MS = "1000" -- the TTL of a lock that was handed over, until its owner's first call
local SECOND_US = 500000 -- the second grace period of Ruby waiters; twice the gem's retry_delay and retry_jitter
local AT_ONCE = 32
local DEAD, SILENT, KEPT = 1, 3, 0.1 -- the cost of a turn, out of the budget
local silent, hears_all, n_dropped = {}, true, 0
local reserved_for, may_pass, serves_marked, if_passed, if_marked -- see reserve.lua
local n_rubies = 0 -- number of Ruby waiters that were passed; 2: two or more
local paused_us -- nothing is granted until then; false: there is no pause; nil: not read yet
local may_be_pruned = true -- a Ruby waiter removes every request that is older than its own queue_ttl
local page = redis.pcall("ZRANGE", queue, "0", "0") -- it is usually the turn of the first waiter
local at, width = 0, 1

if not page[1] and not page.err then
    restore(queue, requests, 0, read_record)
    page = call("ZRANGE", queue, "0", "0")
end
local first, n_random -- first: record of the first waiter, if it was read already
if page[1] and random + 0 < 32768 then
    first, n_random = unpack(call("HMGET", requests, page[1], "random"))
end
if n_random then
    -- In half the cases a waiter that asked for random access may overtake the head, from any place. That waiter
    -- is a page of its own, which counts for no place in the queue.
    local place = random % call("ZCARD", queue)
    local pick = call("ZRANGE", queue, place, place)[1]
    local record = pick and call("HGET", requests, pick)
    local access = record and select(5, read_record(record))
    if access == "r" or access == "R" then
        page, width, first = {pick}, 0, record
    end
end
repeat
    for i = 1, #page do
        local waiter, cost = page[i], DEAD
        local record = waiter ~= me and (first or call("HGET", requests, waiter))
        local host, ttl_ms, nonce, until_us, access, score_us, meta_at
        local identity, heard -- of a waiter of ours; heard: how many clients received its message
        local lives = waiter == me -- the waiter that makes this call is alive
        first = nil
        if record then
            host, ttl_ms, nonce, until_us, access, score_us, meta_at = read_record(record)
        end
        if host then
            identity = identity_of(waiter)
            lives = not silent[identity] and is_alive(live, identity, now_text, until_us, score_us)
        end
        if paused_us == nil and not (host and lives and access ~= "s" and access ~= "S") then
            -- In a pause no waiter is served, and none leaves the queue. A grant finds a pause by itself.
            paused_us = pause_end(fence, now_text) or false
        end
        if paused_us then
            turn, free_ms = "free", math.ceil((paused_us - now_text) / 1000)
            break
        end
        if host and lives and (not hears_all or n_rubies > 0) and notify(identity, "hello") == 0 then
            heard = 0 -- after one silent client there may be many: a message is cheaper than a grant
        elseif lives and n_rubies > 0 then
            -- Dead Ruby waiters were passed, and now it is the turn of a waiter of ours. If several were passed,
            -- only the first of them had its grace period at the head. So the last one is put back, with a short
            -- grace period for all: one that is alive returns to its old place within it, and takes the lock.
            local _, last_us, n_gone, score, head =
                string.match(call("HGET", requests, "ruby"), "^(%d+) (%d+) (%d) (%S+) (.*)$")
            if n_gone == "1" then
                call("HDEL", requests, "ruby")
            else
                local since = string.format("%.0f", now_text - GRACE_US + SECOND_US)
                call("ZADD", queue, score, head)
                call("HSET", requests, "ruby", since .. " " .. last_us .. " 0 " .. score .. " " .. head)
                turn, free_ms = "free", SECOND_US / 1000
            end
            n_rubies = 0
        end
        if not host and waiter ~= me and may_be_pruned and at == 0 then
            -- Waiters that the Ruby waiter at the head has removed come back in front of it, and the page is read
            -- again.
            may_be_pruned = false
            restore(queue, requests, call("ZCARD", queue) - 1, read_record) -- at least this waiter has no record
            width = 0
            break
        end
        if turn then
            cost = 0
        elseif waiter == me and reserved_for and (yields or not may_pass) then
            cost = KEPT -- a waiter that holds something may be behind the caller
        elseif waiter == me and yields then
            -- @include reserve
        elseif waiter == me then
            turn = "mine"
        elseif not host and reserved_for and not may_pass then
            cost = KEPT -- a waiter that holds something may be behind this Ruby waiter
        elseif not host then
            -- A waiter without a record is a Ruby waiter: it takes a free lock by itself, when it tries again and
            -- is the first. It has a grace period for that; after it the waiter counts as dead.
            --
            -- The Ruby waiters that are in the queue when the grace period begins share it. So n dead ones do not
            -- cost n times as much, and all leave when it is over. The grace period begins again for a Ruby waiter
            -- that has come to the head otherwise, also for one that has had the lock since then and asks again, as
            -- its score shows. It also begins again if it was begun in the future, because then the server's clock
            -- was set back.
            local n_left = at
            if at > 0 then -- a series, and waiters that it does not let pass; their records stay
                call("ZREMRANGEBYRANK", queue, 0, at - 1)
                at = 0
            end
            local score = call("ZSCORE", queue, waiter)
            local since_us, last_us, n_gone, known_score, head =
                string.match(call("HGET", requests, "ruby") or "", "^(%d+) (%d+) (%d) (%S+) (.*)$")
            local is_known = since_us and not is_less(now_text, since_us)
                and ((head == waiter and known_score == score)
                    or (n_gone ~= "0" and score * 1000000 <= last_us + 0))

            if is_known and now_text - since_us >= GRACE_US then
                n_rubies = math.min(n_gone + 1, 2)
                call("HSET", requests, "ruby",
                     since_us .. " " .. last_us .. " " .. n_rubies .. " " .. score .. " " .. waiter)
            else
                if not is_known then
                    local tail = call("ZRANGE", queue, "-1", "-1", "WITHSCORES")[2]
                    since_us, last_us = now_text, string.format("%.0f", math.ceil(tail * 1000000))
                    call("HSET", requests, "ruby",
                         since_us .. " " .. last_us .. " 0 " .. score .. " " .. waiter)
                    call("PEXPIRE", requests, "60000")
                    -- @include notify_first
                end
                turn, free_ms = "free", math.ceil((GRACE_US - (now_text - since_us)) / 1000)
            end
        elseif not lives or heard == 0 then
            cost = DEAD
        elseif reserved_for and not may_pass and not (serves_marked and access < "a") then
            cost = KEPT
        elseif access == "s" or access == "S" then
            -- No script but its own sees all locks of a series, so the series is notified to poll at once. (The
            -- message is no grant: a client that knows only grants skips it.) A caller that cannot take the lock
            -- now does not notify it, because two series would notify each other without end.
            heard = yields and 1 or notify(identity, nonce .. " look")
            if not heard then
                turn = "free"
            elseif heard > 0 and not reserved_for then
                -- @include reserve
            elseif heard > 0 then
                cost = KEPT
            end
        else
            -- The waiter gets the lock and is notified. If its client does not receive the message, the lock is
            -- taken back. If this user may not publish, the lock is left to the next poll.
            local acquirer, host = waiter, whole_host(host, waiter)
            local fields, first_field = meta_at <= #record and cmsgpack.unpack(string.sub(record, meta_at)), 1
            local is_claimed = not is_less(CLAIM_MS, ttl_ms)
            local lease_ms = is_claimed and ttl_ms or CLAIM_MS
            if not fields then
                fields = is_claimed and {} or {"rql_claim", "1"}
            elseif not is_claimed then
                fields[#fields + 1] = "rql_claim"
                fields[#fields + 1] = "1"
            end

            -- @include grant

            paused_us = not token and pause_end(fence, now_text)
            if paused_us then
                turn, free_ms = "free", math.ceil((paused_us - now_text) / 1000)
                break
            end
            heard = notify(identity, nonce .. " " .. token .. " " .. now_text .. " " .. lease_ms)
            if heard and heard > 0 then
                call("ZREM", queue, acquirer)
                -- A Ruby waiter behind the served one has a turn of its own when the lock is free again. A waiter
                -- that is served out of turn, alone on its page, does not end the turn of a Ruby waiter, because
                -- there may be no end of such waiters.
                forget(requests, acquirer, access, width > 0 and "ruby")
                turn = "granted"
            else
                call("DEL", lock)
                turn = not heard and "free" or nil
            end
        end
        if heard == 0 then
            silent[identity], hears_all = true, false
            cost = SILENT
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
