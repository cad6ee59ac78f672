-- This function is for scripts that delete a lock regardless of its holder.
--
-- after: serve_queue
-- out: delete_lock

-- Deletes the lock and gives it to the next waiter. held is its acq_id, hst_id, nonce, token, ts and reason. Returns the
-- answer of the script: the client reports whose lock it was. An id of more than 512 bytes is none of ours or of the gem.
local function delete_lock(keys, now_text, now_seconds, held, random)
    local call, served = redis.call, "0"
    local function id(text)
        return text and #text <= 512 and text or ""
    end
    local since = tonumber(held[5]) or now_seconds
    call("DEL", keys[1])
    if call("EXISTS", keys[2], keys[3]) > 0 then
        served = select(4, serve(keys, now_text, now_seconds, random))
    end
    return {1, tonumber(served), id(held[1]), id(held[3]), held[4] or "-1", now_text,
            string.format("%.0f", math.max(0, now_text - since * 1000000)), string.sub(held[6] or "", 1, 512)}
end
