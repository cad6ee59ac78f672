-- Take a lock, re-enter it, or stand in its queue; look again while waiting. One round trip.
--
-- Safe to repeat with the same nonce: a grant is answered again, a request keeps its place.
--
-- @keys lock queue requests live fence
-- @args acquirer host ttl_ms nonce not_after_us ask ...
--
-- ask, read only when the lock is not simply free: "<access q|r><conflict w|t|e|d><fail_fast f|->
-- <wait_ms, -1 for ever> <queue_ttl_ms, -1 for ever> <known score us, 0> <chance 0..65535>".
-- Further arguments are metadata: name, value, ...
-- Returns one line, for lists are slow to build:
--   "1 now_us ttl_left_ms token process(0|1|2) was_handed_over grant's_nonce": held;
--   "0 now_us pttl_ms rank is_first was_restored of_ruby score_us": queued;
--   "2|3|4 now_us pttl_ms": fail_fast_no_try | fail_fast_after_try | conflict;
--   "5 now_us": stale, came after not_after_us; "6 now_us": again, repeat the call.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local acquirer, host, ttl_ms, nonce, not_after = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- @include clock

if #now_text > #not_after or (#now_text == #not_after and now_text > not_after) then
    return "5 " .. now_text
end
if not string.find(ttl_ms, "^[1-9]%d*$") or tonumber(ttl_ms) > 2592000000 then
    return redis.error_reply("ERR ttl out of range")
end

-- @include grant

local function take()
    local token = grant(acquirer, host, ttl_ms, nonce, ttl_ms, unpack(ARGV, 7))
    return "1 " .. now_text .. " " .. ttl_ms .. " " .. token .. " 0 0 " .. nonce
end

if call("EXISTS", lock, queue, requests) == 0 then
    return take()
end

-- @include settle
-- @include queueing

local access, conflict, fail_fast, wait_ms, queue_ttl_ms, known_us, chance =
    string.match(ARGV[6], "^(%a)(%a)(.) (%-?%d+) (%-?%d+) (%d+) (%d+)$")
wait_ms, queue_ttl_ms, known_us, chance =
    tonumber(wait_ms), tonumber(queue_ttl_ms), tonumber(known_us), tonumber(chance)
local owner = call("HGET", lock, "acq_id")
local holder = owner == acquirer and call("HGET", lock, "rql_nonce")
local mine = call("HGET", requests, acquirer) -- before any write: a foreign type is an error
local request = mine and read_record(mine)
local score = mine and call("ZSCORE", queue, acquirer)

local function refuse(why)
    return why .. " " .. now_text .. " " .. call("PTTL", lock)
end

if holder and (holder == nonce or conflict == "t" or conflict == "e") then
    -- @include holding
elseif owner == acquirer and conflict == "d" then
    drop(acquirer)
    return refuse("4")
elseif owner and fail_fast == "f" then
    return refuse("2")
end

-- Returns the score, and the rank if that is known.
local function enqueue(at_us)
    local last = call("ZRANGE", queue, "-1", "-1", "WITHSCORES")
    local us = at_us > 0 and at_us or tail_score(last)
    -- The record first: what leaves needs it, should the rest be denied (F-24).
    if not request or request.nonce ~= nonce then
        local until_us = wait_ms >= 0 and now + wait_ms * 1000 or 0
        call("HSET", requests, acquirer, record_of(host, ttl_ms, nonce, until_us, access, {unpack(ARGV, 7)}))
    end
    call("ZADD", queue, us == now and now_seconds or seconds(us), acquirer)
    if access == "r" then
        call("HSET", requests, "random", "1")
    end
    if not last[1] or not identity_of(last[1]) or known_us > 0 then
        if not last[1] or call("PTTL", queue) > 0 then -- the gem's queues have no ttl, and stay so
            call("PEXPIRE", queue, "60000")
        end
        call("PEXPIRE", requests, "60000")
    end
    return us, not last[1] and 0
end

if not owner and access == "r" then
    drop(acquirer)
    return take()
end

local is_poll = known_us > 0
local restored = is_poll and not score
local score_us, rank = enqueue(score and math.floor(tonumber(score) * 1000000 + 0.5) or known_us)
show_life(identity_of(acquirer), is_poll)
local turn = "held"
if not owner then
    local oldest_us = queue_ttl_ms >= 0 and now - queue_ttl_ms * 1000 or 0
    turn = settle(chance, {acquirer = acquirer, oldest_us = oldest_us})
end
if turn == "mine" then
    drop(acquirer)
    return take()
elseif fail_fast == "f" then
    drop(acquirer)
    return refuse("3")
elseif turn == "again" then
    return "6 " .. now_text
end
if queue_ttl_ms >= 0 and score_us + queue_ttl_ms * 1000 < now then
    call("ZREM", queue, acquirer)
    score_us, rank = enqueue(0)
end

rank = rank or call("ZRANK", queue, acquirer)
local next_owner = owner or (turn == "free" and call("ZRANGE", queue, "0", "0")[1]) or nil
local of_ruby = next_owner and not identity_of(next_owner) and 1 or 0
return string.format("0 %s %.0f %d %d %d %d %.0f", now_text, call("PTTL", lock), rank, is_first(rank),
                     restored and 1 or 0, of_ruby, score_us)
