-- Withdraws a request in any state: takes it out of the queue, and gives back a lock or re-entry that it was
-- granted.
--
-- @keys lock queue requests live fence
-- @args acquirer nonce random
-- Returns "what served"; what: 0 nothing there, 1 left the queue, 2 released, 3 re-entry undone; served:
-- lua/README.md 9.

local call = redis.call
-- @include clock
-- @include waiters
-- @include serving
-- @include serve_queue
-- @include extension
-- @include withdraw

return withdraw(KEYS, now_text, now_seconds, ARGV[1], ARGV[2], ARGV[3])
