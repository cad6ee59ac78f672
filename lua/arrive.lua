-- Said by a client on a new connection, in front of all calls: whether the server has lost writes that this
-- client has seen, and that nothing is to be granted for a while because it may have (lua/README.md 44 to 48).
--
-- Safe to repeat: then it changes nothing.
--
-- @keys fence era
-- @args server floor_us pause_ms ...
--
-- server: its run id, or "-" if it is not known. floor_us: the highest token that this client has seen.
-- pause_ms: 0, or for how long nothing is granted if another server was here last. One more, where keys have come
-- from other servers: run ids with a blank before and behind each, of those that still are masters of what they have.
-- Returns "what token": the last one that the server knew; what: 0 none is missing; 1 some are, and those to
-- come are above floor_us; 2 some are, but floor_us is far in the future.

local call = redis.call
local fence, era = KEYS[1], KEYS[2]
local server, floor_us, pause_ms, masters = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or ""
local HOUR_US = 3600000000 -- a floor beyond it is of a client that has other data, or an invention
-- @include clock

local last = call("GET", fence) or "0"
local until_us, before = string.match(last, "^q (%d+) (%d+)$")
local known = before or string.match(last, "^%d+$") or "0"
local token, what = known, "0"

if is_less(known, floor_us) and floor_us - now_text > HOUR_US then
    what = "2"
elseif is_less(known, floor_us) then
    what, token = "1", floor_us
end
if pause_ms ~= "0" then
    local was = call("GET", era) or "nobody"
    if was ~= server and not string.find(masters, " " .. was .. " ", 1, true) then
        until_us = string.format("%.0f", now_text + pause_ms * 1000)
    end
end
if until_us then
    token = "q " .. until_us .. " " .. token
end
if token ~= last then
    call("SET", fence, token)
end
if pause_ms ~= "0" then
    call("SET", era, server) -- behind the fence: should that fail, the pause is begun by the next one
end
return what .. " " .. known
