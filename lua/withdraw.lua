-- Ends a script that withdraws a request: takes the request out of the queue, releases its grant, or undoes its
-- re-entry.
--
-- in: call lock queue requests live fence acquirer nonce random now_text now_seconds is_less

local what = 0
-- @include waiters
-- @include serving
-- @include extension

-- A key of a foreign type is left alone. The rest of the request is removed all the same, and no waiter is served.
local held = redis.pcall("HMGET", lock, "rql_nonce", "rql_ext:" .. nonce)
local record = redis.pcall("HGET", requests, acquirer)

if held[1] == nonce then
    call("DEL", lock)
    what = 2
elseif held[2] then
    call("HDEL", lock, "rql_ext:" .. nonce)
    take_back(lock, now_text, held[2])
    what = 3
end
local _, _, asked, _, access = read_record(type(record) == "string" and record or "")
local was_head
if asked == nonce then
    was_head = redis.pcall("ZRANK", queue, acquirer) == 0
    forget(requests, acquirer, access)
    redis.pcall("ZREM", queue, acquirer)
    what = math.max(what, 1)
end
if type(record) == "table" or call("EXISTS", queue, requests) == 0 then
    return what .. " 0"
elseif redis.pcall("HEXISTS", lock, "acq_id") ~= 0 then
    local head = redis.pcall("ZRANGE", queue, "0", "0")[1]
    -- A Ruby client is in front or holds the lock. It notifies no waiter when it leaves or releases. So the
    -- waiter that leads from now on has to track the lock.
    if head and (call("HEXISTS", requests, head) == 0
        or (was_head and redis.pcall("HEXISTS", lock, "rql_nonce") == 0)) then
        local me, n_left
        -- @include notify_first
    end
    return what .. " 0"
end

local me, holds, yields, turn, free_ms, passed
-- @include serve_queue

return what .. " " .. served
