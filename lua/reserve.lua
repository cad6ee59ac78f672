-- Reserves a free lock for the series that is the first in its queue and does not take the lock, because a series
-- takes all of its locks or none. The lock stays free for a limited time, because a waiter behind the series may
-- hold another lock of the series.
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
-- A series that steps aside (yields is "aside") lets the waiters behind it pass at once. Its reservation has then
-- not lapsed: the next one begins when the lock is next seen free, and is no longer than this one.
--
-- in: call queue requests now_text is_less waiter holds yields KEPT
-- in: turn free_ms cost reserved_for may_pass serves_marked if_passed if_marked
--
-- Sets the variables in the second line. turn is set only if the calling waiter is marked and takes the lock past
-- the series, or if no waiter behind the series can be served.

local RESERVED_US, LONGEST_US, MARKED = 2000000, 60000000, 16
local since_us, n_passed, n_marked, whom =
    string.match(call("HGET", requests, "series") or "", "^(%d+) (%d+) (%d+) (.*)$")
if whom ~= waiter or is_less(now_text, since_us) then
    since_us, n_passed, n_marked, whom = nil, "0", "0", waiter
end
local length_us = math.min(RESERVED_US * 2 ^ n_passed, LONGEST_US)
local is_begun = since_us and since_us ~= "0"
if is_begun and now_text - since_us >= length_us then
    local ruby_us, score, ruby =
        string.match(call("HGET", requests, "ruby") or "", "^(%d+) %d+ %d (%S+) (.*)$")
    if ruby and not is_less(ruby_us, since_us) and not is_less(now_text, ruby_us)
        and call("ZSCORE", queue, ruby) ~= score then
        is_begun, n_passed, n_marked = false, n_passed + 1, "0" -- the Ruby waiter was let pass, and has been served
        length_us = math.min(2 * length_us, LONGEST_US)
    end
end
local steps_aside = yields == "aside"
if not is_begun or steps_aside then
    since_us = steps_aside and "0" or now_text
    call("HSET", requests, "series", since_us .. " " .. n_passed .. " " .. n_marked .. " " .. whom)
end
local left_us = steps_aside and 0 or length_us - (now_text - since_us)
reserved_for, may_pass, cost = waiter, left_us <= 0, KEPT
serves_marked = n_marked + 0 < MARKED
if_passed = "0 " .. n_passed + (steps_aside and 0 or 1) .. " 0 " .. whom
if_marked = "0 " .. n_passed .. " " .. n_marked + 1 .. " " .. whom
free_ms = math.max(math.ceil(left_us / 1000), 1)
if holds and not yields and serves_marked then
    turn = "mine"
elseif not may_pass and not (serves_marked and call("HEXISTS", requests, "holders") == 1) then
    turn = "free"
end
