-- after: serving
-- out: notify_next_sharer

-- Notifies the first waiter that is alive to poll, if it wants to share the lock that has just become shared. It
-- then admits itself and the waiters behind it. Without it they would wait for their next polls.
local function notify_next_sharer(keys, now_text)
    local PLACES = "8"
    for _, acquirer in ipairs(redis.call("ZRANGE", keys[2], "0", PLACES)) do
        local waiter = read_record(acquirer, redis.call("HGET", keys[3], acquirer))
        if not waiter then
            return -- a Ruby waiter, which waits until the lock is free
        elseif is_alive(keys[4], waiter, now_text, waiter.score_us)
            and not (waiter.access:lower() == "h" and notify(keys, waiter, waiter.nonce .. " look") == 0) then
            return
        end
    end
end
