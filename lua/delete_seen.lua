-- This function is for scripts that delete a lock which a client has seen.
--
-- after: serve_queue
-- out: delete_seen

-- Deletes the lock if it is still the grant that was seen, and gives it to the next waiter. seen is acq_id, hst_id, ts,
-- nonce, as the client saw them, and a random number. Returns the answer of the script.
local function delete_seen(keys, now_text, now_seconds, seen)
    local call, lock = redis.call, keys[1]
    local held = call("HMGET", lock, "acq_id", "hst_id", "ts", "rql_nonce")
    for i = 1, 4 do
        if (held[i] or "") ~= seen[i] then
            return "0 0"
        end
    end
    local is_deleted = call("DEL", lock)
    if call("EXISTS", keys[2], keys[3]) == 0 or type(redis.pcall("HLEN", keys[3])) ~= "number" then
        return is_deleted .. " 0" -- no waiter, or a foreign type in place of the requests
    end
    return is_deleted .. " " .. select(4, serve(keys, now_text, now_seconds, seen[5]))
end
