-- Removes the requests of dead hosts from a queue, one page per call.
--
-- @keys lock queue requests live fence hosts suspects
-- @args from
-- The host of a request is in its record. That of a Ruby waiter follows from its acquirer id, which names the
-- same thread. Returns {number removed, served, place to go on from or -1, length of the queue}; served 2: the lock is
-- free, serve the next waiter.

local call = redis.call
local lock, queue, requests, hosts, suspects = KEYS[1], KEYS[2], KEYS[3], KEYS[6], KEYS[7]
local from = tonumber(ARGV[1])
local PAGE = 40 -- takes less than 1 ms
-- @include clock
-- @include waiters
-- @include serving
-- @include is_dead_host

local function host_of(acquirer)
    local waiter = read_record(acquirer, call("HGET", requests, acquirer))
    if waiter then
        return waiter.host, waiter.access
    end
    local thread, rest = string.match(acquirer, "^rql:acq:([^/]*/[^/]*)/[^/]*/(.*)$")
    return thread and "rql:hst:" .. thread .. "/" .. rest
end

call("HLEN", requests) -- before any write: a foreign type is an error
local length = call("ZCARD", queue)
local waiters = call("ZRANGE", queue, from, from + PAGE - 1)
local removed = 0
for _, acquirer in ipairs(waiters) do
    local host, access = host_of(acquirer)
    if host and is_dead_host(hosts, suspects, host) then
        call("ZREM", queue, acquirer)
        forget(requests, acquirer, access)
        removed = removed + 1
    end
end
local next_from = #waiters < PAGE and -1 or from + PAGE - removed
if removed == 0 or call("EXISTS", queue) == 0 or redis.pcall("HEXISTS", lock, "acq_id") ~= 0 then
    return {removed, 0, next_from, length}
end
return {removed, 2, next_from, length}
