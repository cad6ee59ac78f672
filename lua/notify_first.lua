-- Notifies the first waiter of ours when a Ruby waiter is at the head of a queue or Ruby holds the lock. No push
-- will come from Ruby. So the first waiter of ours that is alive and receives is notified to poll, and then has the
-- server report to it what Ruby does. If there seems to be no such waiter, a Ruby waiter may have removed it, as it
-- removes all requests that have waited for a long time.
--
-- in: call queue requests live now_text read_record identity_of restore notify is_alive me n_left
--
-- n_left: how many waiters have just left the queue so that this Ruby waiter is its head, or nil.

local PLACES = 512 -- the script looks for no waiter behind more Ruby waiters than that
local from, n_there, is_told, is_over = 0, n_left or 0, false, false
repeat
    local others = call("ZRANGE", queue, from, from + 31)
    for i = 1, #others do
        local record = call("HGET", requests, others[i])
        local host, _, nonce, until_us = read_record(record or "")
        local identity = identity_of(others[i])
        n_there = n_there + (host and 1 or 0)
        is_told = others[i] == me or (host and is_alive(live, identity, now_text, until_us)
            and notify(identity, nonce .. " look") ~= 0)
        if is_told then
            break
        end
    end
    from = from + 32
    is_over = is_told or from >= PLACES
    if not is_over and #others < 32 then
        is_over = n_there > 0
        if not is_over then
            restore(queue, requests, n_there, read_record)
            is_over = call("HLEN", requests) == 0 or call("ZCARD", queue) <= from - 32 + #others
            from, n_there = 0, 1
        end
    end
until is_over
