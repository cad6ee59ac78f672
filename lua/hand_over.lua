-- Included by our_turn.lua where a waiter of another client gets the lock: it is told, and if it does not
-- hear, the lock is taken back.
--
-- Uses what our_turn.lua uses, and the words of the waiter's record. Leaves heard, how many clients did; and
-- turn, unless none did. If this user may tell nobody, the lock is left to the next poll.

local acquirer, lease_ms = waiter, ttl_ms
local host = whole_host(host, waiter)
local fields, first_field = {}, 1
if meta_at <= #record then
    fields = cmsgpack.unpack(string.sub(record, meta_at))
end
if is_less(CLAIM_MS, ttl_ms) then
    lease_ms = CLAIM_MS
    fields[#fields + 1] = "rql_claim"
    fields[#fields + 1] = "1"
end

-- @include grant

heard = notify(identity, nonce .. " " .. token .. " " .. now_text .. " " .. lease_ms)
if heard and heard > 0 then
    call("ZREM", queue, acquirer)
    forget(requests, acquirer, access)
    turn = "granted"
else
    call("DEL", lock)
    turn = not heard and "free" or nil
end
