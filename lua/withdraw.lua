-- The end of a script that withdraws a request: out of the queue, a grant released, a re-entry undone.
--
-- in: call lock queue requests live fence acquirer nonce random now_text now_seconds is_less

local what = 0
-- @include waiters
-- @include serving
-- @include extension

-- What somebody else has put under a key is none of ours; the rest goes all the same, and nobody is served.
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
    -- Ruby is in front, or has the lock, and tells nobody when it ends: who leads from now on has to track
    -- the lock.
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
