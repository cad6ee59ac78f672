-- Where a Ruby is at the head of a queue: no push will come from it, so the first waiter of ours that lives
-- and hears is told to look, and has the server tell it of what Ruby does. If there seems to be none, a Ruby
-- may have removed it, as it does with all that have waited for long.
--
-- in: call queue requests live now_text read_record identity_of restore notify is_alive me n_left
--
-- n_left: how many have just left the queue so that this Ruby is its head, or nil.

local PLACES = 512 -- behind more Rubies than that nobody is looked for
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
