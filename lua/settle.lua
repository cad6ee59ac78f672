-- Included by every script that can leave a lock free: serves its queue (protocol.md 1 to 6).
--
-- Uses clock.lua, grant.lua, and call, lock, queue, requests and live of the including script.

local SILENCE_US = 5000000 -- X: a client silent for longer is dead
local GRACE_US = 2000000 -- a Ruby waiter at the head of a free lock gets this long to take it
local CLAIM_MS = "1000" -- G: a lock handed over lives this long until its owner is heard of
local COSTS = {gone = 1, passed = 0.1, skipped = 4}
local budget = 30 -- of one call, in turns of the dead: less than 1 ms
local n_gone = 0
local now = tonumber(now_text)
local AT_ONCE = 32

-- Ours have 32 hexadecimal digits at the end, Ruby's 16.
local function identity_of(acquirer)
    local is_ours = string.byte(acquirer, -33) == 47 and string.find(acquirer, "^%x+$", -32)
    return is_ours and string.sub(acquirer, -32) or nil
end

-- nil: no request record; see queueing.lua.
local function read_record(record)
    local host, ttl_ms, nonce, until_us, access, at =
        string.match(record, "^(%S+) (%d+) (%x+) (%d+) (%a) ()")
    if not at then
        return nil
    end
    local meta = at <= #record and cmsgpack.unpack(string.sub(record, at)) or {}
    return {host = host, ttl_ms = ttl_ms, nonce = nonce, until_us = tonumber(until_us),
            access = access, meta = meta}
end

local function drop(acquirer)
    call("ZREM", queue, acquirer)
    call("HDEL", requests, acquirer)
end

-- Gives the lock to a waiter of another client and tells it; takes it back if nobody listens.
local function hand_over(acquirer, request, identity)
    local host, ttl_ms, nonce = request.host, request.ttl_ms, request.nonce
    local lease_ms, token = ttl_ms, nil
    if #ttl_ms >= #CLAIM_MS and ttl_ms ~= CLAIM_MS then -- it is longer
        lease_ms = CLAIM_MS
        token = grant(acquirer, host, ttl_ms, nonce, lease_ms, "rql_claim", "1", unpack(request.meta))
    else
        token = grant(acquirer, host, ttl_ms, nonce, lease_ms, unpack(request.meta))
    end
    local heard = redis.pcall("PUBLISH", "rql:wake:" .. identity,
        nonce .. " " .. token .. " " .. now_text .. " " .. lease_ms)
    if type(heard) == "number" and heard > 0 then
        drop(acquirer)
        return true
    end
    call("DEL", lock)
    return false
end

-- A series takes all of its locks or none, and no script but its own sees them all: it is told to
-- look at once. False: nobody listens. (The text is no grant: readers that know only those skip it.)
local function nudge(nonce, identity)
    local heard = redis.pcall("PUBLISH", "rql:wake:" .. identity, nonce .. " look")
    return type(heard) == "number" and heard > 0
end

-- One waiter's turn: "granted", "mine" (it is the caller), "stop", "gone" (removed), "skipped", or
-- "passed" (skipped for what was found before).
local function serve(acquirer, me, deaf)
    local identity = identity_of(acquirer)
    if not identity then
        -- @include ruby_turn
    end
    local is_me = me and acquirer == me.acquirer
    if deaf[identity] and not is_me then
        return "passed"
    end
    local record = call("HGET", requests, acquirer)
    local request = record and read_record(record)
    if not request or (request.until_us > 0 and request.until_us < now) then
        drop(acquirer)
        return "gone"
    end
    if is_me then
        return "mine"
    end
    local sign = tonumber(call("ZSCORE", live, identity) or 0)
    if sign < now - SILENCE_US then
        drop(acquirer)
        return "gone"
    end
    if request.access == "s" then
        if nudge(request.nonce, identity) then
            return "stop" -- the lock stays free for it
        end
    elseif hand_over(acquirer, request, identity) then
        return "granted"
    end
    deaf[identity] = true
    return "skipped"
end

-- The lock is free: serve its queue. Returns "granted", "mine", "free", or "again" if the dead were too
-- many for one call. Who is only skipped does not count: the next call would skip them as well.
local function settle(chance, me)
    local deaf, turn = {}, nil
    if chance < 32768 and call("HGET", requests, "random") then
        -- @include luck
    end
    local at, width, page = 0, 1, call("ZRANGE", queue, "0", "0") -- it is mostly the first's turn
    while true do
        for i = 1, #page do
            turn = serve(page[i], me, deaf)
            if turn == "granted" or turn == "mine" then
                return turn
            elseif turn == "stop" then
                return "free"
            end
            n_gone = n_gone + (turn == "gone" and 1 or 0)
            at = at + (turn == "gone" and 0 or 1)
            budget = budget - COSTS[turn]
            if budget <= 0 then
                return n_gone > 0 and "again" or "free"
            end
        end
        if #page < width then
            return "free"
        end
        width = AT_ONCE
        page = call("ZRANGE", queue, at, at + width - 1)
    end
end

-- For answers: 0 nobody was served, 1 it was handed over, 2 ask again (rqli_serve() does).
local function served(chance)
    local turn = settle(chance)
    return turn == "granted" and 1 or turn == "again" and 2 or 0
end
