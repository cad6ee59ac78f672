-- These functions are included where a series has its turn, because they are seldom needed.
--
-- after: serving
-- out: hint_series

-- Reserves a free lock for the series that is the first in its queue and does not take the lock, because a series
-- takes all of its locks or none (lua/README.md 23). The lock stays free for a limited time, because a waiter behind
-- the series may hold another lock of the series.
--
-- During the reservation a waiter that is marked as holding something is served before all other waiters. At most
-- MARKED of them are served, because not all are part of a circle and the series could wait for ever. One waiter
-- without that mark is served when the reservation lapses. Then the reservation begins again and is twice as long,
-- because a series that is passed each time would never be served. A Ruby waiter takes a lock only at the head of
-- the queue, so all waiters in front of it leave the queue and come back with their next polls.
--
-- The reservation begins when the lock is first seen free. Only a grant past the series begins it again: waiters
-- that leave the queue, or take the lock at random, would otherwise make it last for ever.
--
-- A series that steps aside lets the waiters behind it pass at once. Its reservation has then not lapsed: the next
-- one begins when the lock is next seen free, and is no longer than this one.
--
-- Sets self.reservation: {has_lapsed: any waiter may pass; serves_marked: a marked one may; if_lapsed, if_marked: the
-- mark "series" after such a waiter was served}. Returns "mine" if the calling waiter is marked and takes the lock past
-- the series, "free" if no waiter behind the series can be served, else "kept".
local function reserve(self, series)
    local RESERVED_US, LONGEST_US, MARKED = 2000000, 60000000, 16
    local call, now_text, queue, requests = redis.call, self.now_text, self.keys[2], self.keys[3]
    local me = self.me or {}
    local steps_aside = me.yields == "aside"
    local since_us, n_passed, n_marked, whom =
        string.match(call("HGET", requests, "series") or "", "^(%d+) (%d+) (%d+) (.*)$")
    if whom ~= series or now_text - since_us < 0 then
        since_us, n_passed, n_marked = nil, "0", "0"
    end
    local length_us = math.min(RESERVED_US * 2 ^ n_passed, LONGEST_US)
    local is_begun = since_us and since_us ~= "0"
    if is_begun and now_text - since_us >= length_us then
        local ruby_us, score, ruby =
            string.match(call("HGET", requests, "ruby") or "", "^(%d+) %d+ %d (%S+) (.*)$")
        if ruby and ruby_us - since_us >= 0 and now_text - ruby_us >= 0
            and call("ZSCORE", queue, ruby) ~= score then
            is_begun, n_passed, n_marked = false, n_passed + 1, "0" -- the Ruby waiter was let pass, and has been served
            length_us = math.min(2 * length_us, LONGEST_US)
        end
    end
    if not is_begun or steps_aside then
        since_us = steps_aside and "0" or now_text
        call("HSET", requests, "series", since_us .. " " .. n_passed .. " " .. n_marked .. " " .. series)
    end
    local left_us = steps_aside and 0 or length_us - (now_text - since_us)
    local has_lapsed, serves_marked = left_us <= 0, n_marked + 0 < MARKED
    self.free_ms = math.max(math.ceil(left_us / 1000), 1)
    self.reservation = {
        has_lapsed = has_lapsed,
        serves_marked = serves_marked,
        if_lapsed = "0 " .. n_passed + (steps_aside and 0 or 1) .. " 0 " .. series,
        if_marked = "0 " .. n_passed .. " " .. n_marked + 1 .. " " .. series,
    }
    if me.holds and not me.yields and serves_marked then
        return "mine"
    elseif not has_lapsed and not (serves_marked and call("HEXISTS", requests, "holders") == 1) then
        return "free"
    end
    return "kept"
end

-- No script but its own sees all locks of a series, so the series is notified to poll at once. (The message is no
-- grant: a client that knows only grants skips it.) A caller that cannot take the lock now does not notify it, because
-- two series would notify each other without end.
local function hint_series(self, acquirer, waiter)
    local heard = self.me and self.me.yields and 1 or notify(self.keys, waiter, waiter.nonce .. " look")
    if not heard then
        return "free"
    elseif heard == 0 then
        return "silent"
    elseif not self.reservation then
        return reserve(self, acquirer)
    end
    return "kept"
end
