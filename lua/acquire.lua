-- Takes a lock, re-enters it, or waits in its queue. A waiter repeats the call to poll. One call is one round trip.
--
-- Idempotent: a repeated call with the same nonce returns the same grant, or keeps the request's place.
--
-- @keys lock queue requests live fence
-- @args acquirer host ttl_ms nonce not_after_us ask ...
--
-- ask is read only if the lock is not simply free: "<access q|r><conflict w|t|e|d><fail_fast f|->
-- <wait_ms, -1 for ever> <known score us, 0> <queue_ttl_ms, -1 for ever> <random 0..65535>". A capital
-- access: the acquirer holds other locks, or may do so. A known score makes the call a poll. "+" in place of fail_fast:
-- two more words follow, "<max_waiters, -1 for any number> <head_start_ms>".
-- Further arguments are metadata: name, value, ...
-- Returns one line, because lists are slow to build:
--   "1 now_us ttl_left_ms token process(0|1|2) way grant's_nonce": held; way: 1 the lock was handed over, 2 the
--   lock was simply free, or the request of a poll was not in the queue;
--   "0 now_us pttl_ms rank is_first was_restored of_ruby score_us in_front": queued; of_ruby: 1 a Ruby client holds
--   the lock, or is in front and takes it next; 2 a Ruby client may unlock it; no push reports that, so the lock
--   has to be tracked; in_front: the acquirer directly in front of the request, for the first request the owner,
--   nothing if the lock is free;
--   "2|3|4 now_us pttl_ms": fail_fast_no_try | fail_fast_after_try | conflict;
--   "5 now_us": stale, the call came after not_after_us; "6 now_us": again, repeat the call; "7 now_us until_us":
--   fail_fast, and nothing is granted until then; "8 now_us count": as many as max_waiters wait already.

-- @include try_free

local is_random = access == "r" or access == "R"
local held = call("HMGET", lock, "acq_id", "rql_nonce")
local owner, holder = held[1], held[1] == acquirer and held[2]
local is_first_to_wait = owner and n_keys == 1 -- there is neither queue nor request
local mine = not is_first_to_wait and call("HGET", requests, acquirer)
local way = "0"

-- @include ttl_left

local more = holder and (holder == nonce or conflict == "t" or conflict == "e")
    and call("HMGET", lock, "rql_token", "rql_claim", "rql_spc", "rql_share")
local is_shared = more and more[4] and holder ~= nonce -- its acquirer does not get it alone by a re-entry

if more and not is_shared then
    -- The call is a repetition, or its acquirer re-enters the lock.
    local token, claim, last_entry = more[1], more[2], more[3]
    local process = "0"

    if claim then -- the first call of a holder that was handed the lock: it has the whole ttl now
        call("HDEL", lock, "rql_claim")
        call("PEXPIRE", lock, call("HGET", lock, "ini_ttl"))
    else -- WAIT covers only what was written over this connection; the grant may be from another one
        call("HSET", lock, "rql_nonce", holder)
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
end
-- @include waiters

if is_shared or (owner == acquirer and conflict == "d") then
    call("ZREM", queue, acquirer)
    forget(requests, acquirer, access_of(mine))
    return "4 " .. now_text .. " " .. ttl_left(lock)
elseif owner and fail_fast == "f" then
    return "2 " .. now_text .. " " .. ttl_left(lock)
elseif not owner and is_random and not pause_end(fence, now_text) then
    if mine then
        access = access_of(mine) -- may be that of an earlier request
    end
else
    -- The request waits: it enters the queue. If the lock is free, the script serves the queue, and this request
    -- may be the one that gets the lock.
    -- @include queue

    local holds = access == "Q" or access == "R"
    local turn, free_ms, passed
    -- @include enter

    way = was_removed and "2" or way
    if not owner then
        -- @include serving
        -- @include serve_queue
        turn, free_ms, passed = serve(keys, now_text, now_seconds, random, {acquirer = acquirer, holds = holds})
    end
    if turn ~= "mine" then
        -- @include queued
    end
    call("HDEL", requests, "ruby") -- a Ruby waiter behind this one, whose turn was not over, has another turn
    if passed then
        call("HSET", requests, "series", passed)
    end
end

call("ZREM", queue, acquirer)
forget(requests, acquirer, access)
-- @include grant
return "1 " .. now_text .. " " .. ttl_ms .. " " .. token .. " 0 " .. way .. " " .. nonce
