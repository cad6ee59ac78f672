-- Take a lock, re-enter it, or stand in its queue; look again while waiting. One round trip.
--
-- Safe to repeat with the same nonce: a grant is answered again, a request keeps its place.
--
-- @keys lock queue requests live fence
-- @args acquirer host ttl_ms nonce not_after_us ask ...
--
-- ask, read only when the lock is not simply free: "<access q|r><conflict w|t|e|d><fail_fast f|->
-- <wait_ms, -1 for ever> <known score us, 0> <queue_ttl_ms, -1 for ever> <random 0..65535>". A capital access:
-- the acquirer holds other locks, or may do so.
-- Further arguments are metadata: name, value, ...
-- Returns one line, for lists are slow to build:
--   "1 now_us ttl_left_ms token process(0|1|2) was_handed_over grant's_nonce": held;
--   "0 now_us pttl_ms rank is_first was_restored of_ruby score_us": queued; of_ruby: 1 a Ruby holds the
--   lock, is in front and takes it next, or may unlock it, of which no push tells: it has to be watched;
--   "2|3|4 now_us pttl_ms": fail_fast_no_try | fail_fast_after_try | conflict;
--   "5 now_us": stale, came after not_after_us; "6 now_us": again, repeat the call.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local acquirer, host, ttl_ms, nonce = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease_ms, fields, first_field = ttl_ms, ARGV, 7
-- @include clock

if is_less(ARGV[5], now_text) then
    return "5 " .. now_text
end
-- @include ttl

local n_keys = call("EXISTS", lock, queue, requests)
if n_keys > 0 then
    -- @include contended
end

-- @include grant

return "1 " .. now_text .. " " .. ttl_ms .. " " .. token .. " 0 0 " .. nonce
