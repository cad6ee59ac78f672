-- Deletes a lock if it is still the grant that was seen and its host is dead, and gives it to the next waiter.
--
-- @keys lock queue requests live fence hosts suspects
-- @args acq_id hst_id ts nonce random
-- A field that was not there is "". Returns "is_deleted served"; served: lua/README.md 9.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local hosts, suspects = KEYS[6], KEYS[7]

-- @include check_grant
-- @include is_dead_host

if not is_dead_host(ARGV[2]) then
    return "0 0"
end

-- @include delete_and_serve
