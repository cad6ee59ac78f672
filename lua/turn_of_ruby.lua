-- These functions are included where a Ruby waiter has its turn or was passed, because they are seldom needed.
--
-- after: waiters notify_first
-- out: turn_of_ruby put_ruby_back

local GRACE_US = 2000000

-- A waiter without a record is a Ruby waiter: it takes a free lock by itself, when it tries again and is the first.
-- It has a grace period for that; after it the waiter counts as dead (lua/README.md 21). Returns "free" while the
-- grace period lasts, else "dead"; or "changed" or "kept", see turn_of().
--
-- The Ruby waiters that are in the queue when the grace period begins share it. So n dead ones do not cost n times as
-- much, and all leave when it is over. The grace period begins again for a Ruby waiter that has come to the head
-- otherwise, also for one that has had the lock since then and asks again, as its score shows. It also begins again
-- if it was begun in the future, because then the server's clock was set back.
local function turn_of_ruby(self, ruby)
    local call, keys, now_text, n_left = redis.call, self.keys, self.now_text, self.at
    local queue, requests, reservation = keys[2], keys[3], self.reservation
    if reservation and not reservation.has_lapsed then
        return "kept" -- a waiter that holds something may be behind this Ruby waiter
    end
    local score = call("ZSCORE", queue, ruby)
    local since_us, last_us, n_gone, known_score, head =
        string.match(self.mark or "", "^(%d+) (%d+) (%d) (%S+) (.*)$")
    local is_known = since_us and now_text - since_us >= 0
        and ((head == ruby and known_score == score) or (n_gone ~= "0" and score * 1000000 <= last_us + 0))
    local left_us = is_known and GRACE_US - (now_text - since_us) or 0

    if left_us <= 0 and n_left == 0 and not self.is_restored then
        -- A Ruby waiter removes every request that is older than its own queue_ttl. They come back in front of it,
        -- but not while its turn lasts: a series has left the queue for it.
        self.is_restored = true
        restore(queue, requests, call("ZCARD", queue) - 1) -- at least this waiter has no record
        return "changed"
    elseif n_left > 0 then -- a series, and waiters that it does not let pass; their records stay
        call("ZREMRANGEBYRANK", queue, 0, n_left - 1)
        self.at = 0
    end
    if not is_known then
        local tail = call("ZRANGE", queue, "-1", "-1", "WITHSCORES")[2]
        last_us, left_us = string.format("%.0f", math.ceil(tail * 1000000)), GRACE_US
        call("HSET", requests, "ruby", now_text .. " " .. last_us .. " 0 " .. score .. " " .. ruby)
        call("PEXPIRE", requests, "60000")
        notify_first(keys, now_text, self.me and self.me.acquirer, n_left)
    elseif left_us <= 0 then
        self.n_rubies = n_gone == "0" and "1" or "2"
        self.mark = since_us .. " " .. last_us .. " " .. self.n_rubies .. " " .. score .. " " .. ruby
        call("HSET", requests, "ruby", self.mark)
        return "dead"
    end
    self.free_ms = math.ceil(left_us / 1000)
    return "free"
end

-- Dead Ruby waiters were passed, and now it is the turn of a waiter of ours. If several were passed, only the first of
-- them had its grace period at the head. So the last one is put back, with a short grace period for all: one that is
-- alive returns to its old place within it, and takes the lock. Returns whether the lock stays free for that.
local function put_ruby_back(self)
    local LEFT_US = 500000 -- twice the gem's retry_delay and retry_jitter
    local call, requests = redis.call, self.keys[3]
    if self.n_rubies == "1" then
        self.n_rubies = nil
        call("HDEL", requests, "ruby")
        return false
    end
    local last_us, score, ruby = self.mark:match("^%d+ (%d+) . (%S+) (.*)$")
    local since_us = string.format("%.0f", self.now_text - GRACE_US + LEFT_US)
    call("ZADD", self.keys[2], score, ruby)
    call("HSET", requests, "ruby", since_us .. " " .. last_us .. " 0 " .. score .. " " .. ruby)
    self.free_ms = LEFT_US / 1000
    return true
end
