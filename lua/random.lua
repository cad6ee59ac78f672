-- Included by serve_queue.lua: with less than half the chances a waiter that asked for it may overtake the head.
--
-- Uses what serve_queue.lua uses. Leaves it as a page of its own, which counts for no place in the queue.

local place = random % call("ZCARD", queue)
local pick = call("ZRANGE", queue, place, place)[1]
local record = pick and call("HGET", requests, pick)
local access = record and select(5, read_record(record))
if access == "r" or access == "R" then
    page, width = {pick}, 0
end
