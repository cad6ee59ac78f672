-- Deletes a lock if it is still the grant that was seen, and gives it to the next waiter.
--
-- @keys lock queue requests live fence
-- @args acq_id hst_id ts nonce random
-- A field that was not there is "". Returns "is_deleted served"; served: lua/README.md 9.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- @include check_grant
-- @include delete_and_serve
