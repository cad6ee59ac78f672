-- Delete a lock if it is still the grant that was seen, and give it to the next waiter.
--
-- @keys lock queue requests live fence
-- @args acq_id hst_id ts nonce chance
-- A field that was not there is "". Returns {is_deleted, served}; served: see settle.lua.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local waiting = redis.pcall("ZCARD", queue)
local records = redis.pcall("HLEN", requests)
local held = call("HMGET", lock, "acq_id", "hst_id", "ts", "rql_nonce")

for i = 1, 4 do
    if (held[i] or "") ~= ARGV[i] then
        return {0, 0}
    end
end
local is_deleted = call("DEL", lock)
if waiting == 0 or type(waiting) ~= "number" or type(records) ~= "number" then
    return {is_deleted, 0} -- nobody waits, or what is there is no queue
end

-- @include clock

-- @include grant
-- @include settle

return {is_deleted, served(tonumber(ARGV[5]))}
