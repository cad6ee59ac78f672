-- Removes hosts that were flushed, if they have been silent since they were declared dead.
--
-- @keys hosts suspects flusher
-- @args host ...
-- Returns for each host 1 if it was removed, else 0; and a last 0.

local call = redis.call
local hosts, suspects = KEYS[1], KEYS[2]
local answer = {}

-- @include is_dead_host

for i = 1, #ARGV do
    answer[i] = is_dead_host(hosts, suspects, ARGV[i]) and call("HDEL", hosts, ARGV[i]) or 0
    call("HDEL", suspects, ARGV[i])
end
answer[#answer + 1] = 0
return answer
