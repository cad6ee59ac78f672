-- after: waiters serving
-- out: notify_first

-- Notifies the first waiter of ours when a Ruby waiter is at the head of a queue or Ruby holds the lock. No push
-- will come from Ruby. So the first waiter of ours that is alive and receives is notified to poll, and then has the
-- server report to it what Ruby does. If there seems to be no such waiter, a Ruby waiter may have removed it, as it
-- removes all requests that have waited for a long time.
--
-- me: the waiter that calls, which needs no message, or nil. n_left: how many waiters have just left the queue so
-- that this Ruby waiter is its head.
local function notify_first(keys, now_text, me, n_left)
    local PLACES = 512 -- the script looks for no waiter behind more Ruby waiters than that
    local call, queue, requests, live = redis.call, keys[2], keys[3], keys[4]
    local from, n_there = 0, n_left
    repeat
        local others = call("ZRANGE", queue, from, from + 31)
        for i = 1, #others do
            local waiter = read_record(others[i], call("HGET", requests, others[i]))
            if others[i] == me or (waiter and is_alive(live, waiter, now_text)
                and notify(keys, waiter, waiter.nonce .. " look") ~= 0) then
                return
            end
            n_there = n_there + (waiter and 1 or 0)
        end
        from = from + 32
        if from < PLACES and #others < 32 then
            if n_there > 0 then
                return
            end
            restore(queue, requests, n_there)
            if call("HLEN", requests) == 0 or call("ZCARD", queue) <= from - 32 + #others then
                return
            end
            from, n_there = 0, 1
        end
    until from >= PLACES
end
