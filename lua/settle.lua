-- Included by every script that can leave a lock free: serves its queue (protocol.md 1 to 6).
--
-- Uses clock.lua, grant.lua, and call, lock, queue, requests and live of the including script.

local SILENCE_US = 5000000 -- X: a client silent for longer is dead
local GRACE_US = 2000000 -- a Ruby waiter at the head of a free lock gets this long to take it
local CLAIM_MS = "1000" -- G: a lock handed over lives this long until its owner is heard of
local COSTS = {gone = 1, passed = 0.1, skipped = 4}
local budget = 30 -- of one call, in turns of the dead: less than 1 ms
local n_gone = 0
local AT_ONCE = 32

-- Ours have 32 hexadecimal digits at the end, Ruby's 16.
local function identity_of(acquirer)
    local identity = string.match(acquirer, "/(%x+)$")
    return identity and #identity == 32 and identity or nil
end

-- A request record: host, ttl, nonce, until, access (q queued, r random, s series); then the
-- metadata, packed.
local function record_of(host, ttl_ms, nonce, until_us, access, meta)
    local head = string.format("%s %s %s %.0f %s ", host, ttl_ms, nonce, until_us, access)
    return #meta > 0 and head .. cmsgpack.pack(meta) or head
end

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
local function hand_over(acquirer, score, record, request, identity)
    local host, ttl_ms, nonce = request.host, request.ttl_ms, request.nonce
    local lease_ms, token = ttl_ms, nil
    if tonumber(ttl_ms) > tonumber(CLAIM_MS) then
        lease_ms = CLAIM_MS
        token = grant(acquirer, host, ttl_ms, nonce, lease_ms, "rql_claim", "1", unpack(request.meta))
    else
        token = grant(acquirer, host, ttl_ms, nonce, lease_ms, unpack(request.meta))
    end
    drop(acquirer)
    local heard = redis.pcall("PUBLISH", "rql:wake:" .. identity,
        nonce .. " " .. token .. " " .. now_text .. " " .. lease_ms)
    if type(heard) == "number" and heard > 0 then
        return true
    end
    call("DEL", lock)
    call("ZADD", queue, score, acquirer)
    call("HSET", requests, acquirer, record)
    return false
end

-- A series takes all of its locks or none, and no script but its own sees them all: it is told to
-- look at once. False: nobody listens. (The text is no grant: readers that know only those skip it.)
local function nudge(nonce, identity)
    local heard = redis.pcall("PUBLISH", "rql:wake:" .. identity, nonce .. " look")
    return type(heard) == "number" and heard > 0
end

-- True while the Ruby waiter may still come for the lock; a dead one is removed.
local function spare_ruby(acquirer, score, oldest_us)
    local seen = call("HGET", requests, "ruby") or ""
    local since = string.match(seen, "^(%d+) ")
    call("PERSIST", queue) -- the gem's queues have no ttl
    if tonumber(score) * 1000000 < oldest_us then
        call("ZREM", queue, acquirer) -- a live one would have moved to the tail (F-37)
        return false
    end
    if since and seen == since .. " " .. score .. " " .. acquirer then
        if now - tonumber(since) >= GRACE_US then
            call("ZREM", queue, acquirer)
            call("HDEL", requests, "ruby")
            return false
        end
        return true
    end
    call("HSET", requests, "ruby", string.format("%.0f %s %s", now, score, acquirer))
    call("PEXPIRE", requests, 60000)
    return true
end

-- One waiter's turn: "granted", "mine" (it is the caller), "stop", "gone" (removed), "skipped", or
-- "passed" (skipped for what was found before).
local function serve(acquirer, score, me, deaf)
    local identity = identity_of(acquirer)
    if not identity then
        return spare_ruby(acquirer, score, me and me.oldest_us or 0) and "stop" or "gone"
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
    elseif hand_over(acquirer, score, record, request, identity) then
        return "granted"
    end
    deaf[identity] = true
    return "skipped"
end

-- Luck: with less than half the chances a waiter that asked for it may overtake the head.
local function serve_by_luck(chance, me, deaf)
    if chance >= 32768 or not call("HGET", requests, "random") then
        return "skipped"
    end
    local at = chance % call("ZCARD", queue)
    local pick = call("ZRANGE", queue, at, at, "WITHSCORES")
    local record = pick[1] and identity_of(pick[1]) and call("HGET", requests, pick[1])
    local request = record and read_record(record)
    if not request or request.access ~= "r" then
        return "skipped"
    end
    return serve(pick[1], pick[2], me, deaf)
end

-- The lock is free: serve its queue. Returns "granted", "mine", "free", or "again" if the dead were too
-- many for one call. Who is only skipped does not count: the next call would skip them as well.
local function settle(chance, me)
    local deaf = {}
    local turn = serve_by_luck(chance, me, deaf)
    if turn == "granted" or turn == "mine" then
        return turn
    end
    local at, width = 0, 1
    while budget > 0 do
        local page = call("ZRANGE", queue, at, at + width - 1, "WITHSCORES")
        for i = 1, #page, 2 do
            turn = serve(page[i], page[i + 1], me, deaf)
            if turn == "granted" or turn == "mine" then
                return turn
            elseif turn == "stop" then
                return "free"
            end
            n_gone = n_gone + (turn == "gone" and 1 or 0)
            at = at + (turn == "gone" and 0 or 1)
            budget = budget - COSTS[turn]
            if budget <= 0 then
                break
            end
        end
        if #page < 2 * width and budget > 0 then
            return "free"
        end
        width = AT_ONCE
    end
    return n_gone > 0 and "again" or "free"
end

-- For answers: 0 nobody was served, 1 it was handed over, 2 ask again (rqli_serve() does).
local function served(chance)
    local turn = settle(chance)
    return turn == "granted" and 1 or turn == "again" and 2 or 0
end
