-- Takes a share of a lock, or waits in its queue. A waiter repeats the call to poll. One call is one round trip.
--
-- A share is a number of units. It fits if the lock is free, or if it is shared and the units in use with these are
-- not more than the request's own limit. A reader is one unit of very many, a permit one unit of a few.
-- Idempotent: a repeated call with the same nonce returns the same grant, or keeps the request's place.
--
-- @keys lock queue requests live fence shares
-- @args acquirer host ttl_ms nonce not_after_us ask rql_share share ...
--
-- ask and answers are those of acquire.lua, except that t and e return the share or the lock that the acquirer has.
-- The access q means: in its turn; r: also past the queue; a record has h or H. rql_share is this word. share is
-- "<units> <limit>", with an s behind the limit if the request asks for slots. Both are metadata, with the arguments
-- behind them. A share with slots has one more word at the end of the answer, "0,3". If the free lock was granted,
-- there is no such word: it has the first slots.

-- @include try_free

local shares = keys[6]
local units, limit, asks = fields[8]:match("^(%d+) (%d+)(s?)$")
local held = call("HMGET", lock, "acq_id", "rql_nonce", "rql_share", "rql_used", "rql_slots", "rql_h:" .. acquirer)
local field = held[6] -- the share of this acquirer in a lock of several
local group = {owner = held[1], is_of_one = held[3] and true, map = held[5] or ""}
-- @include remove_shares
if held[3] then
    group.used = held[3]:match("^%d+") + 0
elseif held[4] then
    group.used = held[4] + 0
    -- @include remove_ended
    group.has_room = ended[1] ~= nil
end
local owner = group.owner
local end_us = field and call("ZSCORE", shares, acquirer)
local holder = end_us and field:sub(1, 32) or owner == acquirer and held[2]
local is_first_to_wait = owner and n_keys == 1 -- there is neither queue nor request
local way, fits = "0", not owner or group.used and not holder and group.used + units <= limit + 0
local sharer = fits and owner and {acquirer = acquirer, host = host, ttl_ms = ttl_ms, nonce = nonce, lease_ms = ttl_ms,
                                   mark = "-", units = units, limit = limit, asks = asks,
                                   metadata = fields[9] and cmsgpack.pack({unpack(fields, 9)}) or ""}
local own_token, own_slots
-- @include join

if end_us and end_us - now_text <= 0 then
    return "6 " .. now_text -- more shares have ended than one call removes
elseif fits and is_first_to_wait then
    own_token, own_slots = join(group, keys, now_text, sharer)
    if own_token then
        return "1 " .. now_text .. " " .. ttl_ms .. " " .. own_token .. " 0 2 " .. nonce .. own_slots
    end
end

-- The acquirer has the lock or a share, or there are waiters, or the request does not fit, or there is a pause.
-- @include waiters
-- @include ttl_left
local mine = not is_first_to_wait and call("HGET", requests, acquirer)
if holder and (holder == nonce or conflict == "t" or conflict == "e") then
    -- The call is a repetition, or its acquirer enters the lock again. A share has no re-entries to count.
    local token, ini_ttl, claim, left_ms
    local own_slots = ""
    if end_us then
        own_slots, token, ini_ttl, claim = field:match("^%x+ %d+:?(%S*) %d+ (%d+) (%d+) (.)")
        claim = claim == "c"
        -- WAIT covers only what was written over this connection; the grant may be from another one
        call("HSET", lock, "rql_h:" .. acquirer, (field:gsub("^(%x+ %S+ %d+ %d+ %d+) c", "%1 -")))
        if claim then -- the first call of a sharer that was admitted: it has the whole ttl now
            end_us = now_text + ini_ttl * 1000
            call("ZADD", shares, string.format("%.0f", end_us), acquirer)
            local life_ms = ini_ttl
            -- @include keep_for
        end
        left_ms = math.floor((end_us - now_text) / 1000)
    else
        token, claim, ini_ttl = unpack(call("HMGET", lock, "rql_token", "rql_claim", "ini_ttl"))
        if claim then
            call("HDEL", lock, "rql_claim")
            call("PEXPIRE", lock, ini_ttl)
        else
            call("HSET", lock, "rql_nonce", holder)
        end
        left_ms = ttl_left(lock)
        local own_units = string.match(held[3] or "", "^(%d+) %d+s")
        if own_units then
            -- @include take_slots
            own_slots = select(2, take_slots("", own_units))
        end
    end
    return "1 " .. now_text .. " " .. left_ms .. " " .. token .. " " .. (holder == nonce and "0" or "1") .. " " ..
        (claim and "1" or "0") .. " " .. holder .. (own_slots == "" and "" or " " .. own_slots)
elseif (holder or owner == acquirer) and conflict == "d" then
    call("ZREM", queue, acquirer)
    forget(requests, acquirer, access_of(mine))
    return "4 " .. now_text .. " " .. ttl_left(lock)
elseif not fits and fail_fast == "f" then
    return "2 " .. now_text .. " " .. ttl_left(lock)
end

-- The request waits: it enters the queue. If the lock is free, the script serves the queue, and this request may be the
-- one that gets the lock. If the request fits, it may be admitted.
local passes_queue, is_random = access == "r" or access == "R", false -- its record waits in its turn
local holds = access < "a"
access = holds and "H" or "h"
-- @include queue
-- @include serving
local turn, free_ms, passed
-- @include enter

way = was_removed and "2" or way
if passes_queue and fits and not pause_end(fence, now_text) then
    turn = "mine"
elseif not owner then
    -- @include serve_queue
    turn, free_ms, passed = serve(keys, now_text, now_seconds, random, {acquirer = acquirer, holds = holds})
end
if turn == "mine" then
    if not passes_queue then
        call("HDEL", requests, "ruby") -- a Ruby waiter behind this one has another turn
    end
    if passed then
        call("HSET", requests, "series", passed)
    end
    call("ZREM", queue, acquirer)
    forget(requests, acquirer, access)
    if owner then
        own_token, own_slots = join(group, keys, now_text, sharer)
    else
        -- @include grant
        own_token = token
        group.used, group.is_of_one, group.owner, group.map = units + 0, true, acquirer, ""
    end
end
-- A newcomer directly behind another waiter of ours is not the next, and admits no waiter, unless it has made room.
if group.used and (own_token or score or is_poll or not is_behind_ours or group.has_room) then
    -- @include admit
    local admitted = admit(group, keys, now_text, not own_token and acquirer, fits)
    if not own_token then
        own_token, own_slots = admitted.token, admitted.slots
        turn, free_ms = admitted.is_partly and "again", admitted.free_ms
        if admitted.has_changed then
            count, next_to_last, is_behind_ours = call("ZCARD", queue), nil, false
        end
    end
    if not (own_token or free_ms or group.is_of_one) then -- until the first share ends
        local first_us = call("ZRANGE", shares, "0", "0", "WITHSCORES")[2]
        free_ms = first_us and math.max(math.ceil((first_us - now_text) / 1000), 0)
    end
end
if not own_token then
    -- @include queued
end
return "1 " .. now_text .. " " .. ttl_ms .. " " .. own_token .. " 0 " .. way .. " " .. nonce .. (own_slots or "")
