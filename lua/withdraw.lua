-- after: waiters serving extension serve_queue
-- out: withdraw

-- Withdraws a request: takes it out of the queue, releases its grant, or undoes its re-entry. Returns the answer of
-- leave.lua.
local function withdraw(keys, now_text, now_seconds, acquirer, nonce, random)
    local call, pcall, lock, queue, requests = redis.call, redis.pcall, keys[1], keys[2], keys[3]
    local what = 0

    -- A key of a foreign type is left alone. The rest of the request is removed all the same, and no waiter is served.
    local held = pcall("HMGET", lock, "rql_nonce", "rql_ext:" .. nonce)
    local record = pcall("HGET", requests, acquirer)

    if held[1] == nonce then
        call("DEL", lock)
        what = 2
    elseif held[2] then
        call("HDEL", lock, "rql_ext:" .. nonce)
        take_back(lock, now_text, held[2])
        what = 3
    end
    local was_head
    local waiter = read_record(acquirer, type(record) == "string" and record)
    if waiter and waiter.nonce == nonce then
        was_head = pcall("ZRANK", queue, acquirer) == 0
        forget(requests, acquirer, waiter.access)
        pcall("ZREM", queue, acquirer)
        what = math.max(what, 1)
    end
    if type(record) == "table" or call("EXISTS", queue, requests) == 0 then
        return what .. " 0"
    elseif pcall("HEXISTS", lock, "acq_id") ~= 0 then
        local head = pcall("ZRANGE", queue, "0", "0")[1]
        local by = was_head and pcall("HMGET", lock, "rql_nonce", "rql_share") or {}
        -- A Ruby client is in front or holds the lock. It notifies no waiter when it leaves or releases. So the
        -- waiter that leads from now on has to track the lock. Or the lock is shared, and the waiter may fit.
        if head and (call("HEXISTS", requests, head) == 0
            or (was_head and (not by[1] or by[1] == "shared" or by[2]))) then
            -- @include notify_first
            notify_first(keys, now_text, nil, 0)
        end
        return what .. " 0"
    end
    return what .. " " .. select(4, serve(keys, now_text, now_seconds, random))
end
