-- Deletes a lock, of any owner or of one, and gives it to the next waiter.
--
-- @keys lock queue requests live fence
-- @args acquirer host is_dry random
-- The acquirer "" is any owner. Returns {1, served, acquirer, nonce, token, now_us, held_us, reason} of what was deleted,
-- or "0 0"; token is -1 for a lock of Ruby's; served: lua/README.md 9.

local call = redis.call
local held = call("HMGET", KEYS[1], "acq_id", "hst_id", "rql_nonce", "rql_token", "ts", "reason")
local is_wanted = ARGV[1] == "" or held[1] == ARGV[1] and held[2] == ARGV[2]

if not is_wanted or call("EXISTS", KEYS[1]) == 0 then
    return "0 0"
elseif ARGV[3] == "1" then
    return "1 0"
end
-- @include clock
-- @include waiters
-- @include serving
-- @include serve_queue
-- @include delete_lock

return delete_lock(KEYS, now_text, now_seconds, held, ARGV[4])
