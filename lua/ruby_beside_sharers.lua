-- A Ruby waiter stands at the head of the queue of a shared lock. It takes only a free lock, so the waiters behind it
-- are not admitted. If it has stood there for STANDS_US, it is removed once, and no waiter is admitted for a while: a live
-- one returns to its place with its next poll. One that does not return is dead (lua/optional.md 62).
--
-- in: call keys now_text acquirer self
--
-- The mark "ruby" is "s <since_us> <score> <acquirer>" while it stands, and "g ..." from when it was removed. These are
-- not the marks of its turn at a free lock (turn_of_ruby.lua), which begins when the lock is free.

if self.me then -- other calls do not wait for it
    local STANDS_US = 15000000
    local score = call("ZSCORE", keys[2], acquirer)
    local since_us, known_score, known = string.match(call("HGET", keys[3], "ruby") or "", "^%a (%d+) (%S+) (.*)$")
    local stood_us = known == acquirer and known_score == score and now_text - since_us or -1
    if stood_us < 0 or stood_us >= STANDS_US then
        call("HSET", keys[3], "ruby",
             (stood_us < 0 and "s " or "g ") .. now_text .. " " .. score .. " " .. acquirer)
        if stood_us >= 0 then
            call("ZREM", keys[2], acquirer)
            self.free_ms, self.has_changed = 2000, true
        end
    end
end
