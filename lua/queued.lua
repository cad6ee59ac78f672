-- Returns the answer to a request that waits, or that may not wait.
--
-- in: call lock queue requests fence acquirer host ttl_ms nonce access fail_fast owner held turn free_ms ttl_left
-- after: clock waiters queue enter
--
-- held[2]: the nonce of the owner's grant. turn: what serve() returned, nil if the lock is held.

if fail_fast == "f" then
    call("ZREM", queue, acquirer)
    forget(requests, acquirer, access)
    local paused_us = not owner and pause_end(fence, now_text)
    if paused_us then
        return "7 " .. now_text .. " " .. paused_us
    end
    return "3 " .. now_text .. " " .. ttl_left(lock)
elseif turn == "again" then
    return "6 " .. now_text
elseif score_us + 0 < oldest_us then -- the request's queue_ttl is over: it goes to the tail
    score_us = tail_us(queue, requests, fence, now_text)
    put_at(queue, requests, acquirer, seconds_of(score_us),
           record_of(acquirer, host, ttl_ms, nonce, until_us, access, score_us))
end
local rank, is_first = count - 1, count == 1 and "1" or "0"
if not owner or (count > 1 and not is_behind_ours) then
    rank = call("ZRANK", queue, acquirer)
    is_first = leads(queue, requests, acquirer, rank)
end
local of_ruby = "0"
if is_first == "1" and owner then
    -- A Ruby client may unlock a lock of ours, too; but tracking from the start would slow hand-overs.
    of_ruby = (rank > 0 or not held[2]) and "1" or is_poll and held[2] ~= "shared" and "2" or "0"
elseif is_first == "1" and free_ms and rank > 0 then
    of_ruby = "1"
end
local in_front = owner or ""
if rank > 0 then
    in_front = next_to_last or call("ZRANGE", queue, rank - 1, rank - 1)[1]
end
-- A waiter directly behind one of its own client does not look after the lock: -1 saves reading the PTTL.
local left_ms = free_ms
    or (is_behind_ours and next_to_last:sub(-32) == acquirer:sub(-32) and "-1") or ttl_left(lock)
return "0 " .. now_text .. " " .. left_ms .. " " .. (rank == 0 and "0" or rank) .. " " .. is_first ..
    " " .. (was_removed and "1" or "0") .. " " .. of_ruby .. " " .. score_us .. " " .. in_front
