-- Included by contended.lua where a request has to wait: it stands in the queue, which is served if the lock is
-- free. Answers, or leaves the lock to be taken: it was its turn.
--
-- Uses what contended.lua uses and has.

-- @include queue

local me, holds, oldest_us = acquirer, access == "Q" or access == "R", 0
local turn, yields, free_ms, passed, queue_ttl_ms, random
local is_poll = known_us ~= "0"
local until_us = end_of(wait_ms, time, micros)
local count = call("ZCARD", queue) -- before any write: a foreign type is an error
local score = mine and call("ZSCORE", queue, acquirer)
local was_removed = is_poll and not score
local score_us, last_two = is_poll and known_us or now_text, {}

if was_removed or (count == 0 and n_keys > (owner and 1 or 0)) then
    local n_there = count
    -- @include restore
    count = call("ZCARD", queue)
    score = mine and call("ZSCORE", queue, acquirer)
end
if score then
    score_us = micros_of(score)
end
-- The record first: what leaves needs it, should the rest be denied.
if not mine or not string.find(mine, " " .. nonce .. " ", 1, true) then
    if mine then
        forget(requests, acquirer, (select(5, read_record(mine))))
    end
    call("HSET", requests, acquirer, record_of(acquirer, host, ttl_ms, nonce, until_us, access, score_us))
    if is_random then
        call("HINCRBY", requests, "random", "1")
    end
    if holds then
        call("HINCRBY", requests, "holders", "1")
    end
end
if not score and is_poll then
    count = count + call("ZADD", queue, seconds_of(score_us), acquirer)
elseif not score then
    count = count + call("ZADD", queue, now_seconds, acquirer)
    if count == 5 then
        keep_as_tree(queue, acquirer)
    end
    last_two = call("ZRANGE", queue, "-2", "-1")
    if last_two[#last_two] ~= acquirer then
        score_us = tail_us(queue, requests, fence, now_text)
        -- @include enqueue_at
    end
end
local is_behind_ours = last_two[2] == acquirer and call("HEXISTS", requests, last_two[1]) == 1
if not is_behind_ours then
    keep(queue, requests)
end
note_heartbeat(live, acquirer, now_text, is_poll)

if not owner or score or is_poll then
    queue_ttl_ms, random = string.match(ARGV[6], "^(%-?%d+) (%d+)$", more_at)
    oldest_us = queue_ttl_ms ~= "-1" and now_text - queue_ttl_ms * 1000 or 0
end
if not owner then
    -- @include serve_queue
end
if turn ~= "mine" then
    if fail_fast == "f" then
        call("ZREM", queue, acquirer)
        forget(requests, acquirer, access)
        return "3 " .. now_text .. " " .. ttl_left(lock)
    elseif turn == "again" then
        return "6 " .. now_text
    elseif score_us + 0 < oldest_us then
        score_us = tail_us(queue, requests, fence, now_text)
        -- @include enqueue_at
    end
    local rank, is_first = count - 1, count == 1 and "1" or "0"
    if not owner or (count > 1 and not is_behind_ours) then
        rank = call("ZRANK", queue, acquirer)
        is_first = leads(queue, requests, acquirer, rank)
    end
    local of_ruby = "0"
    if is_first == "1" and owner then
        -- Ruby may unlock what ours holds, too; but a watch from the first moment would slow hand-overs.
        of_ruby = (rank > 0 or is_poll or call("HEXISTS", lock, "rql_nonce") == 0) and "1" or "0"
    elseif is_first == "1" and free_ms and rank > 0 then
        of_ruby = "1"
    end
    return "0 " .. now_text .. " " .. (free_ms or ttl_left(lock)) .. " " .. rank .. " " .. is_first .. " " ..
        (was_removed and "1" or "0") .. " " .. of_ruby .. " " .. score_us
elseif passed then
    call("HSET", requests, "series", passed)
end
