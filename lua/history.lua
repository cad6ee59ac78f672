-- Adds single holds that have ended to the history (lua/optional.md 74).
--
-- @keys history
-- @args holds
-- A hold is its number of texts, and for each of them " length " and so many bytes: names and values of fields in turn.
-- holds has one or more of them, each behind a line feed. Returns the number of entries.
--
-- Entries that are older than 7 days go, and so do the oldest if there are too many, or if they take too much memory.

local call, history, holds = redis.call, KEYS[1], ARGV[1]
local MOST, MOST_BYTES, TTL_MS = 20000, 4000000, 604800000
-- @include clock

local function read_hold(at)
    local _, last, count = string.find(holds, "^\n(%d+)", at)
    local texts = {}
    for i = 1, count + 0 do
        local _, blank, length = string.find(holds, "^ (%d+) ", last + 1)
        last = blank + length
        texts[i] = string.sub(holds, blank + 1, last)
    end
    return texts, last + 1
end

local at = 1
while at <= #holds do
    local texts
    texts, at = read_hold(at)
    call("XADD", history, "MAXLEN", "~", MOST, "*", unpack(texts))
end
call("XTRIM", history, "MINID", "~", string.format("%.0f", (now_text - now_text % 1000) / 1000 - TTL_MS))
local bytes = redis.pcall("MEMORY", "USAGE", history) -- the right may be missing
if type(bytes) == "number" and bytes > MOST_BYTES then
    call("XTRIM", history, "MAXLEN", "~", math.floor(call("XLEN", history) * 3 / 4))
end
call("PEXPIRE", history, TTL_MS)
return call("XLEN", history)
