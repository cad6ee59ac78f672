-- Removes dead requests from a queue, one page per call.
--
-- @keys lock queue requests live fence
-- @args oldest_us from is_dry
-- Only requests that came at oldest_us or before are checked. A request of ours is dead if it has no record, its
-- time is over, or its client is silent. All of Ruby's count as dead, because Ruby sends no heartbeat.
-- Returns {number removed, served, place to go on from or -1, length of the queue}; served 2: the lock is free, serve
-- the next waiter.

local call = redis.call
local lock, queue, requests, live = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local oldest, from, is_dry = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == "1"
local PAGE = 40 -- takes less than 1 ms
-- @include clock
-- @include waiters
-- @include serving

local function is_dead(acquirer)
    local waiter = read_record(acquirer, call("HGET", requests, acquirer))
    return not waiter or not is_alive(live, waiter, now_text)
end

local function dead_of(waiters)
    local dead = {}
    for i = 1, #waiters, 2 do
        if tonumber(waiters[i + 1]) * 1000000 > oldest then
            return dead, true
        elseif is_dead(waiters[i]) then
            dead[#dead + 1] = waiters[i]
        end
    end
    return dead, #waiters < 2 * PAGE
end

call("HLEN", requests) -- before any write: a foreign type is an error
local length = call("ZCARD", queue)
local dead, is_end = dead_of(call("ZRANGE", queue, from, from + PAGE - 1, "WITHSCORES"))
local next_from = is_end and -1 or from + PAGE - (is_dry and 0 or #dead)
if is_dry then
    return {#dead, 0, next_from, length}
end
for _, acquirer in ipairs(dead) do
    local access = access_of(call("HGET", requests, acquirer))
    call("ZREM", queue, acquirer)
    forget(requests, acquirer, access)
end
if not is_end or call("EXISTS", queue) == 0 or redis.pcall("HEXISTS", lock, "acq_id") ~= 0 then
    return {#dead, 0, next_from, length} -- the lock is held, the queue is empty, or there are more pages
end
return {#dead, 2, next_from, length}
