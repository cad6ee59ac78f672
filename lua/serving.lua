-- These functions are for scripts that serve waiters or remove dead ones. Like the functions of waiters.lua, they
-- capture no variable of the script, except for is_less.
--
-- after: clock
-- out: read_record is_alive notify

-- Returns what a waiter's record says (lua/README.md 5), or nil if it has none: host, ttl_ms, nonce, until_us (end of
-- the wait, 0: never), access (q queued, r random, s series, h shared; a capital: the acquirer holds other locks, too),
-- score_us (version 0.1 wrote none), and the packed metadata. identity is that of the client, which is the end of the
-- acquirer id; it names the client's channel and heartbeat. A record omits the identity at the end of the host id if it
-- is the same one; a record of version 0.1 did not.
local function read_record(acquirer, record)
    local host, ttl_ms, nonce, until_us, access, score_us, metadata =
        string.match(record or "", "^(%S+) (%d+) (%x+) (%d+) (%a) (%d*) ?(.*)$")
    local identity = acquirer:sub(-32)
    return host and {identity = identity, host = host:byte(-1) == 47 and host .. identity or host, ttl_ms = ttl_ms,
                     nonce = nonce, until_us = until_us, access = access, score_us = score_us, metadata = metadata}
end

-- Returns whether the waiter's time is not over and its client sent a heartbeat within SILENCE_US. A heartbeat in
-- the future was sent before the server's clock was set back. Its age is not known, so it counts as sent now,
-- once. If score_us is given, a request that entered its queue within SILENCE_US was a heartbeat itself: that
-- spares the queue a command. A sweep, which removes what is dead, looks at the heartbeat.
local function is_alive(live, waiter, now_text, score_us)
    local SILENCE_US = 5000000 -- a client silent for longer is dead
    if waiter.until_us ~= "0" and is_less(waiter.until_us, now_text) then
        return false
    end
    local age_us = score_us and score_us ~= "" and now_text - score_us
    if age_us and age_us <= SILENCE_US and age_us >= -SILENCE_US then
        return true
    end
    local silent_us = now_text - (redis.call("ZSCORE", live, waiter.identity) or 0)
    if silent_us < -SILENCE_US then
        redis.call("ZADD", live, now_text, waiter.identity)
        return true
    end
    return silent_us <= SILENCE_US
end

-- Publishes a message to a waiter's client and returns how many clients received it, or nil if this user may not
-- publish. The keys of a partition have a tag in front, and its channels are in their slot: PUBLISH would go to all
-- nodes of a cluster, and count the receivers of one.
local function notify(keys, waiter, message)
    local prefix = keys[1]:match("^rql:{%w+}:")
    local channel = (prefix or "rql:") .. "wake:" .. waiter.identity
    local heard = redis.pcall(prefix and "SPUBLISH" or "PUBLISH", channel, message)
    return type(heard) == "number" and heard or nil
end
