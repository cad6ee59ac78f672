-- Lists a client with its description of itself, for people who look at locks (lua/README.md 51).
--
-- The call is safe to repeat.
--
-- @keys clients
-- @args identity in_front between behind
--
-- The entry is in_front, the time, between, the time of the client's first entry, behind. Returns 0.

local call = redis.call
local clients, identity = KEYS[1], ARGV[1]
local MOST, PAGE, OLD_US, TTL_MS = 10000, 100, 1800000000, 3600000
-- @include clock

-- Removes the old entries of one page or, if none is old, the oldest one of that page. Returns whether it removed
-- any. A living client renews its entry every 20 minutes. The page begins anywhere, because any number is a
-- cursor. Without the right to HSCAN nothing is removed.
local function make_room()
    local page = redis.pcall("HSCAN", clients, micros, "COUNT", PAGE)
    if page[2] and #page[2] == 0 then
        page = redis.pcall("HSCAN", clients, "0", "COUNT", PAGE)
    end
    local old, oldest, oldest_us = {}, nil, nil
    for i = 1, page[2] and #page[2] or 0, 2 do
        local at_us = (string.match(page[2][i + 1], "at_us.:(%d+)") or "0") + 0
        if at_us < now_text - OLD_US then
            old[#old + 1] = page[2][i]
        elseif not oldest or at_us < oldest_us then
            oldest, oldest_us = page[2][i], at_us
        end
    end
    if #old == 0 then
        old[1] = oldest
    end
    if #old > 0 then
        call("HDEL", clients, unpack(old))
    end
    return #old > 0
end

local before = call("HGET", clients, identity)
local since = before and string.match(before, "since_us.:(%d+)") or now_text

if not before and call("HLEN", clients) >= MOST and not make_room() then
    return 0 -- the list is full: only clients that are listed already stay on it
end
call("HSET", clients, identity, ARGV[2] .. now_text .. ARGV[3] .. since .. ARGV[4])
call("PEXPIRE", clients, TTL_MS)
return 0
