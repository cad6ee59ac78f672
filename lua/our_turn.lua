-- Included by settle.lua where it is the turn of a waiter of ours: it gets the lock, or is dead, or is deaf.
--
-- Uses what settle.lua uses, and waiter and identity. Leaves turn, or what passing it over costs.

local record = waiter ~= me and call("HGET", requests, waiter)
local host, ttl_ms, nonce, until_us, access, meta_at
if record then
    host, ttl_ms, nonce, until_us, access, meta_at = read_record(record)
end
if waiter == me then -- who asks is alive
    turn = "mine"
elseif host and is_alive(live, identity, now_text, until_us) then
    if access == "s" then
        -- It takes all of its locks or none, and no script but its own sees them all: it is told to look
        -- at once. (The text is no grant: who knows only those skips it.)
        turn = tell(identity, nonce .. " look") and "free"
    else
        -- @include hand_over
    end
    if not turn then
        deaf[identity] = true
        cost = SKIPPED
    end
end
