-- What a client says of itself, for those who look at locks (lua/README.md 51).
--
-- Safe to repeat.
--
-- @keys clients
-- @args identity in_front between behind
--
-- The entry is in_front, the time, between, the time of its first entry, behind. Returns 0.

local call = redis.call
local clients, identity = KEYS[1], ARGV[1]
local MOST, TTL_MS = 10000, 3600000
-- @include clock

local before = call("HGET", clients, identity)
local since = before and string.match(before, "since_us.:(%d+)") or now_text

if not before and call("HLEN", clients) >= MOST then
    call("DEL", clients) -- most have ended; who has not says it again
end
call("HSET", clients, identity, ARGV[2] .. now_text .. ARGV[3] .. since .. ARGV[4])
call("PEXPIRE", clients, TTL_MS)
return 0
