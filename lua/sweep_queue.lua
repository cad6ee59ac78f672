-- Removes a whole queue, and notifies the first waiter of each of our clients to poll.
--
-- @keys lock queue requests live fence
-- @args is_dry
-- Returns {number of requests, 0}. A live waiter goes on waiting: its record stays, so that the next call
-- that finds the lock free puts all waiters with a record back in their old order, and so does its own next
-- poll. The records of dead waiters among the first PLACES are removed.

local call = redis.call
local queue, requests, live = KEYS[2], KEYS[3], KEYS[4]
local PLACES = 300 -- number of places at the head in which waiters are looked for: less than 1 ms
local told = {}
-- @include clock
-- @include waiters
-- @include serving

local count = call("ZCARD", queue)
if ARGV[1] == "1" then
    return {count, 0}
end
for _, acquirer in ipairs(call("ZRANGE", queue, 0, PLACES - 1)) do
    local record = call("HGET", requests, acquirer)
    local waiter = read_record(acquirer, record)
    if record and not (waiter and is_alive(live, waiter, now_text)) then
        forget(requests, acquirer, waiter and waiter.access)
    elseif waiter and not told[waiter.identity] then
        told[waiter.identity] = waiter
    end
end
call("UNLINK", queue)
for _, waiter in pairs(told) do
    notify(KEYS, waiter, waiter.nonce .. " look")
end
return {count, 0}
