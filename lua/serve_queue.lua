-- These functions serve the queue of a free lock. `self` is what they share, see serve().
--
-- after: clock waiters serving
-- out: serve

local budget = 30 -- of all calls of serve() in one call of the script, in turns of dead waiters: less than 1 ms

-- Gives the lock to a waiter and notifies it (lua/README.md 17). If its client does not receive the message, the lock
-- is taken back. If this user may not publish, the lock is left to the next poll.
local function give_to(self, acquirer, waiter)
    local CLAIM_MS = "1000" -- the TTL of a lock that was handed over, until its owner's first call
    local call, keys, now_text, now_seconds = redis.call, self.keys, self.now_text, self.now_seconds
    local lock, fence = keys[1], keys[5]
    local host, ttl_ms, nonce = waiter.host, waiter.ttl_ms, waiter.nonce
    local fields, first_field = waiter.metadata ~= "" and cmsgpack.unpack(waiter.metadata), 1
    local is_claimed = not is_less(CLAIM_MS, ttl_ms)
    local lease_ms = is_claimed and ttl_ms or CLAIM_MS
    if not fields then
        fields = is_claimed and {} or {"rql_claim", "1"}
    elseif not is_claimed then
        fields[#fields + 1] = "rql_claim"
        fields[#fields + 1] = "1"
    end
    -- @include grant
    if not token then
        return "paused"
    end
    local heard = notify(keys, waiter, nonce .. " " .. token .. " " .. now_text .. " " .. lease_ms)
    if not heard or heard == 0 then
        call("DEL", lock)
        return heard and "silent" or "free"
    end
    call("ZREM", keys[2], acquirer)
    -- A Ruby waiter behind the served one has a turn of its own when the lock is free again. A waiter that is served
    -- out of turn does not end the turn of a Ruby waiter, because there may be no end of such waiters.
    forget(keys[3], acquirer, waiter.access, not self.is_random and "ruby")
    if waiter.access:lower() == "h" then
        -- @include tell_next
        notify_next_sharer(keys, now_text)
    end
    return "granted"
end

-- Returns what becomes of the waiter whose turn it is: "kept" in its place; "dead" or "silent": it leaves the queue;
-- "changed": the queue is to be read again; "paused": nothing is granted for a while; or the turn that serve() returns.
-- waiter is what the record of this acquirer says, nil for a Ruby waiter and for the caller.
local function turn_of(self, acquirer, waiter)
    local keys, me, reservation = self.keys, self.me, self.reservation
    local is_me = me and me.acquirer == acquirer
    local is_series = waiter and (waiter.access == "s" or waiter.access == "S")
    local lives = is_me -- the caller is alive
    if waiter then
        lives = not (self.silent and self.silent[waiter.identity])
            and is_alive(keys[4], waiter, self.now_text, waiter.score_us)
    end
    if not self.is_granting and not (waiter and lives and not is_series) then
        -- In a pause no waiter is served, and none leaves the queue. A grant finds a pause by itself.
        if pause_end(keys[5], self.now_text) then
            return "paused"
        end
        self.is_granting = true
    end
    if waiter and lives and (self.silent or self.n_rubies) and notify(keys, waiter, "hello") == 0 then
        return "silent" -- after one silent client there may be many: a message is cheaper than a grant
    end
    if not (waiter or is_me) or (lives and self.n_rubies) then
        -- @include notify_first
        -- @include turn_of_ruby
        if not lives then
            return turn_of_ruby(self, acquirer)
        elseif put_ruby_back(self) then
            return "free"
        end
    end
    local is_kept = reservation and not reservation.has_lapsed -- even this waiter may not pass the series
    if not lives then
        return "dead"
    elseif is_me and not me.yields then
        return is_kept and "kept" or "mine"
    elseif reservation and (is_me or (is_kept and not (reservation.serves_marked and waiter.access < "a"))) then
        return "kept" -- a waiter that holds something may be behind this one
    elseif is_me or is_series then
        -- @include reserve
        return hint_series(self, acquirer, waiter)
    end
    return give_to(self, acquirer, waiter)
end

-- Serves the queue of a free lock: each waiter has its turn, until one gets the lock or the lock is kept free for it
-- (lua/README.md 14). A key of a foreign type in place of the queue or of the requests counts as an empty queue,
-- because an error here would hide what the script has done to the lock.
--
-- me is the waiter that the script acts for and that may take the lock, or nil: {acquirer; holds: it is marked as
-- holding something; yields: it cannot take the lock now; if yields is "aside", it gives up its reservation, too}.
--
-- A waiter that cannot be served is removed from the queue: a dead waiter, or one whose client receives nothing.
-- So each waiter in front of one that can be served is passed once, and not by each call again. If a removed
-- waiter is alive, its next poll restores its old place. That poll is due as soon as its client receives again.
--
-- Returns:
-- turn     "granted" to another; "mine"; "free": the lock stays free; "again": too much to do for one call
-- free_ms  how long the lock stays free for a waiter, or in a pause for none
-- passed   the new mark "series" if a series was passed, see reserve.lua
-- served   for answers: 0 no waiter was served, 1 the lock was handed over, 2 call again
local function serve(keys, now_text, now_seconds, random, me)
    local AT_ONCE = 32
    local call, queue, requests = redis.call, keys[2], keys[3]
    local page, width = redis.pcall("ZRANGE", queue, "0", "0"), 1 -- it is usually the turn of the first waiter

    if not page[1] and not page.err then
        restore(queue, requests, 0)
        page = call("ZRANGE", queue, "0", "0")
    end
    local head = page[1] and redis.pcall("HMGET", requests, page[1], "random", "ruby") or page
    page = head.err and head or page -- which then has no waiter
    -- record: the first waiter's, if it was read already
    local record, n_random, has_dropped, turn = head[1], random + 0 < 32768 and head[2]
    if n_random then
        -- In half the cases a waiter that asked for random access may overtake the head, from any place. That waiter
        -- is a page of its own, which counts for no place in the queue.
        local place = random % call("ZCARD", queue)
        local pick = call("ZRANGE", queue, place, place)[1]
        local of_pick = pick and call("HGET", requests, pick)
        local waiter = pick and read_record(pick, of_pick)
        if waiter and (waiter.access == "r" or waiter.access == "R") then
            page, width, record = {pick}, 0, of_pick
        end
    end
    -- at: places that stay in front; mark: the mark "ruby"; n_rubies: Ruby waiters that were passed, also by the call
    -- that this one repeats ("again"): "1", or "2" for two or more
    local self = {keys = keys, now_text = now_text, now_seconds = now_seconds, me = me, at = 0, mark = head[3],
                  n_rubies = head[3] and head[3]:match("^%d+ %d+ ([12])"), is_random = width == 0}
    repeat
        for i = 1, #page do
            local acquirer = page[i]
            local waiter = not (me and acquirer == me.acquirer)
                and read_record(acquirer, record or call("HGET", requests, acquirer)) or nil
            record = nil
            local fate = turn_of(self, acquirer, waiter)
            if fate == "kept" then
                self.at = self.at + 1
                budget = budget - 0.1
            elseif fate == "dead" or fate == "silent" then
                call("ZREM", queue, acquirer)
                forget(requests, acquirer, waiter and waiter.access)
                has_dropped = true
                budget = budget - 1
            else
                turn, width = fate ~= "changed" and fate, 0
                break
            end
            if fate == "silent" then
                self.silent = self.silent or {}
                self.silent[waiter.identity] = true
                budget = budget - 2 -- a message without a receiver costs more
            end
            if budget <= 0 then
                turn = has_dropped and "again" or "free"
                break
            end
        end
        if not turn and #page < width then
            turn = "free"
        elseif not turn then
            width = width == 0 and 1 or AT_ONCE
            page = call("ZRANGE", queue, self.at, self.at + width - 1)
        end
        self.is_random = false
    until turn
    if turn == "paused" then
        turn, self.free_ms = "free", math.ceil((pause_end(keys[5], now_text) - now_text) / 1000)
    end
    local reservation = self.reservation
    local passed = reservation and (turn == "granted" or turn == "mine")
        and (reservation.has_lapsed and reservation.if_lapsed or reservation.if_marked)
    if passed and turn == "granted" then
        call("HSET", requests, "series", passed)
    end
    return turn, self.free_ms, passed, turn == "granted" and "1" or turn == "again" and "2" or "0"
end
