-- Takes several locks in one step, or waits for all of them while holding none. One call is one round trip.
--
-- A request is in all its queues with one score: any two series are in the same order in every queue that
-- they share, so they cannot wait for each other in a circle. Idempotent: a repeated call with the same nonces
-- returns the same grant, or keeps the request's place. All keys must be in one hash slot.
--
-- @keys lock queue requests ... live fence
-- @args acquirer host ttl_ms nonces not_after_us ask ...
--
-- nonces are 32 digits for each lock. ask and metadata are as for acquire.lua, except that the conflict
-- strategies are t and, for all others, d.
-- Returns {1, now_us, {token, ttl_left_ms, process 0|1, grant's nonce} of each lock}: all are held;
--         {0, now_us, pttl_ms, rank, is_first, was_restored, of_ruby, score_us, state of each}: queued;
--         {2|3|4, now_us, pttl_ms, state of each}, {5|6, now_us}, {7, now_us, until_us}: as acquire.lua.
-- of_ruby is the number of the first lock that has to be tracked, as for acquire.lua, or 0.
-- pttl_ms is that of the lock that ends last, or the time until a reservation of this series lapses, if that is
-- less; rank is that of the worst place; is_first means in each queue. state is the obstacle: 0 none, 1 another
-- acquirer holds the lock, 2 other waiters are in front (or there is a pause), 3 this acquirer holds it.

local call = redis.call
local lock, queue, requests, nonce -- of the current lock, see turn_to()
local count = math.floor((#KEYS - 2) / 3) -- one more key may follow the fence, see lua/README.md 52
local live, fence = KEYS[3 * count + 1], KEYS[3 * count + 2]
local acquirer, host, ttl_ms = ARGV[1], ARGV[2], ARGV[3]
-- @include clock
local now = now_text + 0

if is_less(ARGV[5], now_text) then
    return {5, now}
end
-- @include ttl
local access, conflict, fail_fast, wait_ms, known_us, queue_ttl_ms, random =
    string.match(ARGV[6], "^(%a)(%a)(.) (%-?%d+) (%d+) (%-?%d+) (%d+)$")
local holds = access == "Q" or access == "R"
local entries = {}
local states = {}

-- @include waiters

local function turn_to(i)
    lock, queue, requests = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
    nonce = string.sub(ARGV[4], 32 * i - 31, 32 * i)
    return entries[i]
end

local function reenter(entry)
    if entry.claim then
        call("HDEL", lock, "rql_claim")
        call("PEXPIRE", lock, call("HGET", lock, "ini_ttl"))
    end
    call("HINCRBY", lock, "spc_cnt", 1)
    call("HSET", lock, "l_spc_ts", now_seconds, "rql_spc", nonce)
end

local function answer_held()
    local answer = {1, now}
    for i = 1, count do
        local entry = turn_to(i)
        answer[#answer + 1] = tonumber(entry.token)
        answer[#answer + 1] = call("PTTL", lock)
        answer[#answer + 1] = entry.is_own and 1 or 0
        answer[#answer + 1] = entry.nonce
    end
    return answer
end

local function withdraw(entry)
    if entry.is_there then
        call("ZREM", queue, acquirer)
        forget(requests, acquirer, entry.access)
    end
end

-- Takes all locks and returns the answer. In a pause it grants nothing, and returns nothing.
local function take()
    for i = 1, count do
        local entry = turn_to(i)
        if entry.is_own then
            reenter(entry)
        else
            local lease_ms, fields, first_field = ttl_ms, ARGV, 7
            -- @include grant
            if not token then
                return
            end
            entry.token, entry.nonce = token, nonce
        end
        withdraw(entry)
        if entry.is_in_turn then -- the turn of a Ruby waiter behind this series was not over
            call("HDEL", requests, "ruby")
        end
        if entry.passed then
            call("HSET", requests, "series", entry.passed)
        end
    end
    return answer_held()
end

if call("EXISTS", unpack(KEYS, 1, 3 * count)) == 0 then
    for i = 1, count do
        entries[i] = {}
    end
    local held = take()
    if held then
        return held
    end
end

-- One of the locks is held, or it has waiters, or they are free in a pause.
-- @include serving
-- @include serve_queue
-- @include queue

local until_us = end_of(wait_ms, time, micros)
local kept_ms -- how long, at most, a lock that other waiters want is kept free for this series

-- Returns the state of a lock and of this request for it. It only reads, so that a key of a foreign type is an
-- error before anything is done.
local function look(i)
    turn_to(i)
    local held = call("HMGET", lock, "acq_id", "rql_nonce", "rql_token", "rql_claim", "rql_spc", "rql_share")
    local record = call("HGET", requests, acquirer)
    local is_known = record and string.find(record, " " .. nonce .. " ", 1, true)
    local score = call("ZSCORE", queue, acquirer)
    local entry = {owner = held[1], nonce = held[2], token = held[3], claim = held[4], is_shared = held[6]}
    entry.is_granted = entry.nonce == nonce
    entry.is_own = entry.owner == acquirer and not entry.is_granted
    entry.is_answered = entry.is_granted or (entry.is_own and held[5] == nonce)
    entry.is_there = record or score
    entry.is_queued = is_known
    entry.access = access_of(record)
    entry.score_us = is_known and score and micros_of(score)
    return entry
end

-- Returns how long nothing can be granted, in ms: until the end of the last lock that another acquirer holds, or
-- of the last reservation, but no longer than until a reservation of this series lapses. -1: it is not known.
local function longest_ttl()
    local longest = -1
    for i = 1, count do
        local entry = turn_to(i)
        longest = math.max(longest, states[i] == 1 and call("PTTL", lock) or entry.free_ms or -1)
    end
    return (longest == -1 or (kept_ms or longest) < longest) and kept_ms or longest
end

local function answer_not_held(...)
    local answer = {...}
    for i = 1, count do
        answer[#answer + 1] = states[i]
    end
    return answer
end

local function refuse(why)
    for i = 1, count do
        withdraw(turn_to(i))
    end
    return answer_not_held(why, now, longest_ttl())
end

-- Returns one score for all queues, above the tail of each.
local function new_score()
    local us = now_text
    for i = 1, count do
        turn_to(i)
        local tail = tail_us(queue, requests, fence, now_text)
        us = is_less(us, tail) and tail or us
    end
    return us
end

local function enqueue(us)
    for i = 1, count do
        local entry = turn_to(i)
        if not entry.is_own then
            if entry.score_us ~= us then
                if not entry.is_queued then
                    forget(requests, acquirer, entry.access)
                    entry.access = holds and "S" or "s"
                    if holds then
                        call("HINCRBY", requests, "holders", "1")
                    end
                end
                put_at(queue, requests, acquirer, seconds_of(us),
                       record_of(acquirer, host, ttl_ms, nonce, until_us, entry.access, us))
                entry.score_us, entry.is_queued, entry.is_there = us, true, true
            end
            keep(queue, requests)
        end
    end
end

-- Returns whether a Ruby holder of one of these locks waits for the current lock. A Ruby waiter has no record that
-- would mark it as a holder, and a reservation would make it and this series wait for each other.
local function is_wanted_by_ruby()
    for i = 1, count do
        local entry = entries[i]
        if states[i] == 1 and not entry.nonce and call("ZSCORE", queue, entry.owner) then
            return true
        end
    end
    return false
end

-- Serves the queue of a free lock, and returns the state of the lock. With yields, this series does not take the
-- lock now, and another waiter may get it in the meantime; with "aside", another waiter may get it at once.
local function state_of(entry, yields)
    if entry.is_own then
        return 0
    elseif entry.owner then
        return 1
    end
    local turn
    turn, entry.free_ms, entry.passed = serve({lock, queue, requests, live, fence}, now_text, now_seconds, random,
                                              {acquirer = acquirer, holds = holds, yields = yields})
    entry.is_again, entry.is_in_turn = turn == "again", turn == "mine"
    return entry.is_in_turn and 0 or 2
end

local n_free, n_answered = 0, 0
for i = 1, count do
    entries[i] = look(i)
    n_answered = n_answered + (entries[i].is_answered and 1 or 0)
end
if n_answered == count then
    for i = 1, count do -- WAIT covers only what was written over this connection, as in acquire.lua
        local entry = turn_to(i)
        call("HSET", lock, "rql_nonce", entry.nonce)
    end
    return answer_held()
end
for i = 1, count do
    local entry = turn_to(i)
    if entry.is_granted then -- the rest of a grant of which another client has ended a part
        call("DEL", lock)
        entry.owner, entry.is_granted = nil, false
    end
    states[i] = entry.is_own and 3 or entry.owner and 1 or 0
    n_free = n_free + (states[i] ~= 1 and 1 or 0)
end
for i = 1, count do
    if states[i] == 3 and not (conflict == "t" and entries[i].token and not entries[i].is_shared) then
        return refuse(4)
    end
end
if n_free < count and fail_fast == "f" then
    return refuse(2)
elseif n_free == count and (access == "r" or access == "R") and not pause_end(fence, now_text) then
    return take()
end

local is_poll = known_us ~= "0"
local restored = 0
local score_us = known_us
note_heartbeat(live, acquirer, now_text, is_poll)
for i = 1, count do
    local entry = entries[i]
    score_us = entry.score_us or score_us
    local is_lost = is_poll and not entry.is_own and not entry.score_us
    turn_to(i)
    local n_there = (entry.score_us or entry.is_own) and 1 or call("ZCARD", queue)
    restored = is_lost and 1 or restored
    if is_lost or n_there == 0 then
        restore(queue, requests, n_there)
    end
end
score_us = score_us ~= "0" and score_us or new_score()
enqueue(score_us)

local oldest_us = queue_ttl_ms ~= "-1" and now - queue_ttl_ms * 1000 or 0
local is_ready, is_again = true, false
for i = 1, count do
    local entry = turn_to(i)
    states[i] = state_of(entry)
    is_ready = is_ready and states[i] == 0
    is_again = is_again or entry.is_again
end
if is_ready then
    return take()
elseif fail_fast == "f" then
    local refusal, paused_us = refuse(3), pause_end(fence, now_text)
    return paused_us and {7, now, paused_us + 0} or refusal
elseif is_again then
    return {6, now}
end
local is_reserved = false -- whether a free lock is kept for this series
for i = 1, count do
    local entry = turn_to(i)
    is_reserved = is_reserved or (states[i] == 0 and not entry.is_own)
    if states[i] == 0 and not entry.is_own and call("ZCARD", queue) > 1 then
        state_of(entry, is_wanted_by_ruby() and "aside" or true)
        if entry.free_ms and entry.free_ms > 1 then -- otherwise the reservation has lapsed
            kept_ms = math.min(kept_ms or entry.free_ms, entry.free_ms)
        end
    end
end

if score_us + 0 < oldest_us then
    score_us = new_score()
    enqueue(score_us)
    for i = 1, count do -- the waiters behind this series may have been waiting for it alone
        local entry = turn_to(i)
        if not entry.owner and states[i] == 0 then
            state_of(entry)
        end
    end
end

local worst, lead, of_ruby = 0, 1, 0
for i = 1, count do
    local entry = turn_to(i)
    local rank = not entry.is_own and call("ZRANK", queue, acquirer)
    local is_first = rank and leads(queue, requests, acquirer, rank) == "1"
    local is_let_by = not entry.is_own and not rank -- the series left the queue for a Ruby waiter
    local is_rubys = entry.owner and not entry.nonce
    -- A Ruby owner of one of these locks may come to wait for a lock that is reserved for this series.
    if of_ruby == 0 and (is_let_by or (is_first and rank > 0) or (is_rubys and (is_first or is_reserved))) then
        of_ruby = i
    end
    worst = math.max(worst, rank or 0)
    lead = (entry.is_own or is_first or is_let_by) and lead or 0
end
return answer_not_held(0, now, longest_ttl(), worst, lead, restored, of_ruby, score_us + 0)
