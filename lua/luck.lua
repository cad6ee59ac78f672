-- Included by settle.lua: with less than half the chances a waiter that asked for it may overtake the head.
--
-- Uses what settle.lua uses, and chance, me, deaf and turn of the including function.

local at = chance % call("ZCARD", queue)
local pick = call("ZRANGE", queue, at, at)[1]
local record = pick and identity_of(pick) and call("HGET", requests, pick)
local request = record and read_record(record)
if request and request.access == "r" then
    turn = serve(pick, me, deaf)
end
if turn == "granted" or turn == "mine" then
    return turn
end
