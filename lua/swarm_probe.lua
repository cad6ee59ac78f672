-- Writes the heartbeats of hosts, and removes the hosts that leave.
--
-- @keys hosts suspects flusher
-- @args n_new n_known ...
-- The further arguments are hosts: first n_new that were not there before, then n_known that were, then those
-- that leave.
-- Returns {now_us, number of known hosts that were declared dead in the meantime}.

local call = redis.call
local hosts, suspects = KEYS[1], KEYS[2]
local n_new, n_known = tonumber(ARGV[1]), tonumber(ARGV[2])
-- @include clock
local now = tonumber(now_text)

local function was_declared_dead(host)
    local record = call("HGET", suspects, host)
    return (record and string.find(record, "^%d+ D ")) or call("HEXISTS", hosts, host) == 0
end

local first_known, first_leaving = 3 + n_new, 3 + n_new + n_known
local n_dead = 0
for i = first_known, first_leaving - 1 do
    n_dead = n_dead + (was_declared_dead(ARGV[i]) and 1 or 0)
end
for i = 3, #ARGV do
    call("HDEL", suspects, ARGV[i]) -- first: a full server refuses no write behind one that needs no memory
    if i < first_leaving then
        call("HSET", hosts, ARGV[i], now_seconds)
    else
        call("HDEL", hosts, ARGV[i])
    end
end
return {now, n_dead}
