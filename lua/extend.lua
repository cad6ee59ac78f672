-- Extends a grant to at least ttl_ms from now if it is still in force. The script never shortens or
-- creates a grant.
--
-- @keys lock queue requests live fence
-- @args nonce ttl_ms random ...
-- One more argument asks for two more numbers: those of wanted.lua.
-- Returns "1 now_us ttl_left_ms" when in force, "0 now_us" when the grant has ended. While re-entries
-- extend the grant, ttl_left_ms does not count the time that they may take back. If the queue is too long to be
-- served in one call, its next poll serves the rest.

local call = redis.call
local lock, queue, requests = KEYS[1], KEYS[2], KEYS[3]
local nonce, ttl_ms = ARGV[1], ARGV[2]
-- @include clock
-- @include ttl

local held = call("HMGET", lock, "rql_nonce", "rql_end")
if held[1] == nonce then
    local left = math.max(call("PTTL", lock), ttl_ms)
    call("PEXPIRE", lock, left)
    call("HDEL", lock, "rql_claim")
    if held[2] then -- no holder may count on time that a re-entry added and takes back at its end
        local ends = math.max(held[2] + 0, now_text + ttl_ms * 1000)
        call("HSET", lock, "rql_end", string.format("%.0f", ends))
        left = math.min(left, math.floor((ends - now_text) / 1000))
    end
    local answer = "1 " .. now_text .. " " .. math.min(left, 2592000000)
    if ARGV[4] then
        -- @include wanted
        return answer .. wanted
    end
    return answer
end
if call("HEXISTS", lock, "acq_id") == 1 or call("EXISTS", queue, requests) == 0 then
    return "0 " .. now_text
end

-- @include waiters
-- @include serving
-- @include serve_queue

serve(KEYS, now_text, now_seconds, ARGV[3])
return "0 " .. now_text
