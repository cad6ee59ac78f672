-- Ends an extendable re-entry: takes back the part of its ttl that was not used (lua/README.md 19).
--
-- @keys lock queue requests live fence
-- @args grant_nonce nonce unused_ms random
-- Returns "1 served ttl_left_ms" if the time was taken back, "0 0 ttl_left_ms" if the re-entry had ended before,
-- "0 served 0" if the grant had ended before; served: lua/README.md 9.

local call = redis.call
local lock, queue, requests = KEYS[1], KEYS[2], KEYS[3]
local ended = "0"
-- @include clock
-- @include extension

if call("HGET", lock, "rql_nonce") == ARGV[1] then
    local left
    if call("HDEL", lock, "rql_ext:" .. ARGV[2]) == 1 then
        left = take_back(lock, now_text, ARGV[3])
        ended = "1"
    else
        left = math.max(call("PTTL", lock), 0) -- the answer to an earlier call may have been lost
    end
    if left > 0 then
        return ended .. " 0 " .. math.min(left, 2592000000)
    end
end
if call("HEXISTS", lock, "acq_id") == 1 or call("EXISTS", queue, requests) == 0 then
    return ended .. " 0 0"
end

-- @include waiters
-- @include serving
-- @include serve_queue

return ended .. " " .. select(4, serve(KEYS, now_text, now_seconds, ARGV[4])) .. " 0"
