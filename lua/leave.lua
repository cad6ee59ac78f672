-- Withdraws a request in any state: takes it out of the queue, and gives back a lock or re-entry that it was
-- granted.
--
-- @keys lock queue requests live fence
-- @args acquirer nonce random
-- Returns "what served"; what: 0 nothing there, 1 left the queue, 2 released, 3 re-entry undone; served:
-- lua/README.md 9.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local acquirer, nonce, random = ARGV[1], ARGV[2], ARGV[3]
-- @include clock
-- @include withdraw
