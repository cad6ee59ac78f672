-- Puts a request that does not get its lock at once into the queue, or finds it there. This is a heartbeat of its
-- client, too.
--
-- in: call queue requests live fence fields acquirer host ttl_ms nonce access is_random holds wait_ms known_us more_at
-- in: mine owner n_keys is_first_to_wait fail_fast
-- after: clock waiters queue
-- out: queue_ttl_ms random oldest_us is_poll until_us count score was_removed score_us next_to_last is_behind_ours
--
-- is_random: the record counts as random; holds: as that of a holder. mine: the record that was there before. access
-- is that of the record behind this.
-- is_first_to_wait: there is neither queue nor request. count: the length of the queue with this request. oldest_us
-- and random are set if the lock is free, or the request was there before.

local queue_ttl_ms, random
local oldest_us = 0 -- the queue_ttl of a request with a score below this is over
local is_poll = known_us ~= "0"
local until_us = end_of(wait_ms, time, micros)
local count = is_first_to_wait and 0 or call("ZCARD", queue) -- a foreign type is an error before any write
local score = mine and call("ZSCORE", queue, acquirer)
local was_removed = is_poll and not score
local score_us = is_poll and known_us or now_text
local next_to_last -- the waiter in front of this request, if the request has just become the last

if was_removed or (count == 0 and n_keys > (owner and 1 or 0)) then
    restore(queue, requests, count)
    count = call("ZCARD", queue)
    score = mine and call("ZSCORE", queue, acquirer)
end
local is_known = mine and string.find(mine, " " .. nonce .. " ", 1, true)
local starts_ahead = false -- its place is that of an earlier time
if score then
    score_us = micros_of(score)
elseif fail_fast == "+" and not (is_poll or is_known) then
    -- @include serving
    -- @include limits
    starts_ahead = head_start_ms ~= "0"
end
-- The record is written first, because a withdrawal needs it if the other writes are denied.
if is_known then
    access = access_of(mine) -- the record keeps that of the first call, and is counted by it
else
    if mine then
        forget(requests, acquirer, access_of(mine))
    end
    call("HSET", requests, acquirer, record_of(acquirer, host, ttl_ms, nonce, until_us, access, score_us))
    if is_random then
        call("HINCRBY", requests, "random", "1")
    end
    if holds then
        call("HINCRBY", requests, "holders", "1")
    end
end
if not score and (is_poll or starts_ahead) then
    count = count + call("ZADD", queue, seconds_of(score_us), acquirer)
elseif not score then
    count = count + call("ZADD", queue, now_seconds, acquirer)
    if count == 5 then
        -- Redis walks a short queue, of up to 128 members, from its head for each newcomer, but not if the
        -- queue ever had a long member. So it gets one for a moment, and stays a tree as long as it exists.
        call("ZADD", queue, "0", acquirer .. acquirer)
        call("ZREM", queue, acquirer .. acquirer)
    end
    local last_two = not is_first_to_wait and call("ZRANGE", queue, "-2", "-1")
    if last_two and last_two[#last_two] == acquirer then
        next_to_last = last_two[2] and last_two[1]
    elseif last_two then
        score_us = tail_us(queue, requests, fence, now_text)
        put_at(queue, requests, acquirer, seconds_of(score_us),
               record_of(acquirer, host, ttl_ms, nonce, until_us, access, score_us))
    end
end
local is_behind_ours = next_to_last and call("HEXISTS", requests, next_to_last) == 1
if not is_behind_ours then
    keep(queue, requests)
end
note_heartbeat(live, acquirer, now_text, is_poll)

if not owner or score or is_poll then
    local ahead_ms
    queue_ttl_ms, random, ahead_ms = fields[6]:match("^(%-?%d+) (%d+) ?%-?%d* ?(%d*)$", more_at)
    oldest_us = queue_ttl_ms ~= "-1" and now_text - (queue_ttl_ms + (tonumber(ahead_ms) or 0)) * 1000 or 0
end
