-- Included by acquire.lua where the acquirer holds the lock: its request is repeated, or it enters again.
--
-- Uses clock.lua, and call, lock, acquirer, ttl_ms, nonce, holder and conflict of the including script.

local more = call("HMGET", lock, "rql_token", "rql_claim", "rql_spc")
local token, claim, last_entry = more[1], more[2], more[3]
local process = "0"

if claim then -- the first sign of a holder that got the lock by hand-over: it has the whole ttl now
    call("HDEL", lock, "rql_claim")
    call("PEXPIRE", lock, call("HGET", lock, "ini_ttl"))
end
if holder ~= nonce and conflict == "t" then
    process = "1"
    if last_entry ~= nonce then
        call("HINCRBY", lock, "spc_cnt", "1")
        call("HSET", lock, "l_spc_ts", now_seconds, "rql_spc", nonce)
    end
elseif holder ~= nonce then
    process = "2"
    if call("HSETNX", lock, "rql_ext:" .. nonce, ttl_ms) == 1 then
        local left = math.max(call("PTTL", lock), 0)
        call("HSETNX", lock, "rql_end", string.format("%.0f", now_text + left * 1000))
        call("PEXPIRE", lock, math.min(left + ttl_ms, 2592000000))
        call("HINCRBY", lock, "spc_ext_ttl", ttl_ms)
        call("HINCRBY", lock, "spc_cnt", "1")
        call("HSET", lock, "l_spc_ext_ts", now_seconds, "l_spc_ext_ini_ttl", ttl_ms)
    end
end
return "1 " .. now_text .. " " .. ttl_left(lock) .. " " .. token .. " " .. process .. " " ..
    (claim and "1" or "0") .. " " .. holder
