-- Asks a holder to release the lock within a time. It is notified with the answer to its next renewal (wanted.lua).
--
-- @keys lock
-- @args acquirer host within_ms
-- Returns 1 when the holder listens; 0 when this acquirer of this host does not hold the lock; -1 when it holds the
-- lock and does not listen: its first request had no on_wanted, or it is Ruby.
--
-- The field rql_asked has the nonce of each holder that was asked, and the time until when, in microseconds. An entry
-- stays if its time has not come yet and the new one is not earlier by more than a second, or if there is no time left.
-- An entry is removed ten days after its time, because no renewal is rarer; until then no other nonce finds it.

local call, lock, acquirer = redis.call, KEYS[1], ARGV[1]
local MARGIN_US, KEPT_US = 1000000, 864000000000
-- @include clock
local held = call("HMGET", lock, "acq_id", "hst_id", "rql_nonce", "rql_tell", "rql_asked", "rql_h:" .. acquirer)
local owner, host, nonce, listens, asked, share = unpack(held, 1, 6)

if share then
    owner = acquirer
    nonce, host = string.match(share, "^(%x+) %S+ %d+ %d+ %d+ . (%S+) ")
    listens = string.find(share, "\168rql_tell\1611", 1, true) -- the pair rql_tell 1 in its packed metadata
end
if owner ~= acquirer or host ~= ARGV[2] then
    return 0
elseif not listens then
    return -1
end

local until_us, others = now_text + ARGV[3] * 1000, ""
for holder, asked_us in string.gmatch(asked or "", "(%x+) (%d+)") do
    if holder == nonce then
        local is_open = asked_us - now_text > 0 or ARGV[3] == "0"
        if is_open and until_us > asked_us - MARGIN_US then
            return 1
        end
    elseif asked_us + KEPT_US > now_text + 0 then
        others = others .. holder .. " " .. asked_us .. " "
    end
end
call("HSET", lock, "rql_asked", others .. nonce .. " " .. string.format("%.0f", until_us))
return 1
