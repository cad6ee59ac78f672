-- Remove a whole queue with its request records; of each client of ours the first waiter is told to look.
--
-- @keys lock queue requests live fence
-- @args
-- Returns {is_removed, number of requests}. Who is not told puts itself back at its next poll.

local call = redis.call
local queue, requests = KEYS[2], KEYS[3]
local PLACES = 100 -- at the head, among which the first waiters are looked for
local told, messages = {}, {}
-- @include waiters

local count = call("ZCARD", queue)
for _, acquirer in ipairs(call("ZRANGE", queue, 0, PLACES - 1)) do
    local identity = identity_of(acquirer)
    if identity and not told[identity] then
        local record = call("HGET", requests, acquirer)
        messages[identity] = record and select(3, read_record(record)) or nil
        told[identity] = true
    end
end
call("UNLINK", queue, requests)
for identity, nonce in pairs(messages) do
    tell(identity, nonce .. " look")
end
return {count > 0 and 1 or 0, count}
