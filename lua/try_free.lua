-- Begins an acquisition of one lock: takes the arguments apart, refuses a call that comes too late, and grants the lock
-- if it is simply free.
--
-- out: call keys fields lock queue requests live fence acquirer host ttl_ms nonce lease_ms first_field
-- out: now_text now_seconds time micros is_less n_keys
-- out: access conflict fail_fast wait_ms known_us more_at
--
-- Behind it the lock is held, or it has waiters, or it is free in a pause.

-- A global variable costs ten times as much as a local one.
local call, keys, fields = redis.call, KEYS, ARGV
local lock, queue, requests, live, fence = keys[1], keys[2], keys[3], keys[4], keys[5]
local acquirer, host, ttl_ms, nonce, not_after_us = fields[1], fields[2], fields[3], fields[4], fields[5]
local lease_ms, first_field = ttl_ms, 7
-- @include clock

if is_less(not_after_us, now_text) then
    return "5 " .. now_text
end
-- @include ttl

local n_keys = call("EXISTS", lock, queue, requests)
if n_keys == 0 then
    -- @include grant
    if token then
        return "1 " .. now_text .. " " .. ttl_ms .. " " .. token .. " 0 2 " .. nonce
    end
end

local access, conflict, fail_fast, wait_ms, known_us, more_at =
    fields[6]:match("^(%a)(%a)(.) (%-?%d+) (%d+) ()")
