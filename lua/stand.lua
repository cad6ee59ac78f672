-- Included by contend.lua where a request has to wait: it stands in the queue, which is served if the lock is
-- free. Answers, or leaves the lock to be taken: it was its turn.
--
-- Uses what contend.lua uses and has.

-- @include queueing

local me, oldest_us, turn, queue_ttl_ms, chance = acquirer, 0, nil, nil, nil
local is_poll = known_us ~= "0"
local score = mine and call("ZSCORE", queue, acquirer)
local score_us, last_two = now_text, {}
local count = call("ZCARD", queue) -- before any write: a foreign type is an error

-- The record first: what leaves needs it, should the rest be denied (F-24).
if not mine or not string.find(mine, " " .. nonce .. " ", 1, true) then
    call("HSET", requests, acquirer, record_of(host, ttl_ms, nonce, end_of(wait_ms, time, micros), access))
    if access == "r" then
        call("HSET", requests, "random", "1")
    end
end
if score then
    score_us = micros_of(score)
elseif is_poll then
    score_us = known_us
    count = count + call("ZADD", queue, seconds_of(score_us), acquirer)
else
    count = count + call("ZADD", queue, now_seconds, acquirer)
    if count == 5 then
        plant_tree(queue, acquirer)
    end
    last_two = call("ZRANGE", queue, "-2", "-1")
    if last_two[#last_two] ~= acquirer then
        score_us = tail_us(queue, now_text)
        call("ZADD", queue, seconds_of(score_us), acquirer)
    end
end
local is_behind_ours = last_two[2] == acquirer and identity_of(last_two[1])
if not is_behind_ours then
    keep(queue, requests, count)
end
show_life(live, acquirer, now_text, is_poll)

if not owner or score or is_poll then
    queue_ttl_ms, chance = string.match(ARGV[6], "^(%-?%d+) (%d+)$", more_at)
    oldest_us = queue_ttl_ms ~= "-1" and now_text - queue_ttl_ms * 1000 or 0
end
if not owner then
    -- @include settle
end
if turn ~= "mine" then
    if fail_fast == "f" then
        drop(queue, requests, acquirer)
        return "3 " .. now_text .. " " .. ttl_left(lock)
    elseif turn == "again" then
        return "6 " .. now_text
    elseif score_us + 0 < oldest_us then
        score_us = tail_us(queue, now_text)
        call("ZADD", queue, seconds_of(score_us), acquirer)
        keep(queue, requests, call("ZCARD", queue)) -- serving the queue may have taken its ttl
    end
    local rank, is_first = count - 1, count == 1 and "1" or "0"
    if not owner or (count > 1 and not is_behind_ours) then
        rank = call("ZRANK", queue, acquirer)
        is_first = leads(queue, acquirer, rank)
    end
    local next_owner = is_first == "1" and (owner or turn == "free" and call("ZRANGE", queue, "0", "0")[1])
    local of_ruby = next_owner and not identity_of(next_owner) and "1" or "0"
    return "0 " .. now_text .. " " .. ttl_left(lock) .. " " .. rank .. " " .. is_first .. " " ..
        (is_poll and not score and "1" or "0") .. " " .. of_ruby .. " " .. score_us
end
