-- Included by every script that reads a queue: who waits there.
--
-- These capture no local of the script: each that is captured costs the server as much as a small command
-- does, in every call of the script, needed or not. So does number-to-text.

local budget, n_gone = 30, 0 -- of settle.lua, in turns of the dead: less than 1 ms in one call of the script

-- Ours have 32 hexadecimal digits at the end, Ruby's 16: nil.
local function identity_of(acquirer)
    return #acquirer > 32 and string.match(acquirer, "^/(%x+)$", -33) or nil
end

-- The words of a request record: host, ttl, nonce, until when (us, 0: for ever), access (q queued, r random,
-- s series); and where its metadata begins, packed. Nothing: it is no record.
local function read_record(record)
    return string.match(record, "^(%S+) (%d+) (%x+) (%d+) (%a) ()")
end

local function drop(queue, requests, acquirer)
    redis.call("ZREM", queue, acquirer)
    redis.call("HDEL", requests, acquirer)
end

-- Whether a client hears a message.
local function tell(identity, message)
    local heard = redis.pcall("PUBLISH", "rql:wake:" .. identity, message)
    return type(heard) == "number" and heard > 0
end
