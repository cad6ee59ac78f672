-- Finds out whether the server has lost writes that this client has seen. Begins a pause, in which nothing is
-- granted, if the server may have lost writes (lua/README.md 44 to 48). A client makes this call before all others
-- on a new connection, or to a partition that has moved (lua/README.md 55).
--
-- Idempotent: a repeated call changes nothing.
--
-- @keys fence era
-- @args server floor_us pause_ms ...
--
-- server: its run id, or "-" if it is not known. floor_us: the highest token that this client has seen or made.
-- pause_ms: 0, or how long nothing is granted if era names another server or none. A fourth argument follows if
-- keys have come from other servers: the run ids, with a blank before and after each, of those servers that are
-- still masters of what they have.
-- Returns "what token"; token: the last one that the server knew; what: 0 no token is missing; 1 some are missing,
-- and those to come are above floor_us; 2 some are missing, but floor_us is far in the future.

local call = redis.call
local fence, era = KEYS[1], KEYS[2]
local server, floor_us, pause_ms, masters = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or ""
local HOUR_US = 3600000000 -- a floor further ahead is from a client that has other data, or is invented
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
    call("SET", era, server) -- after the fence: if writing the fence fails, the next client begins the pause
end
return what .. " " .. known
