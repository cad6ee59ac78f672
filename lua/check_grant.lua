-- Ends a script that deletes a lock which a client has seen, if the lock is no longer that grant. ARGV begins with
-- acq_id, hst_id, ts and nonce, as the client saw them.
--
-- in: call lock

local held = call("HMGET", lock, "acq_id", "hst_id", "ts", "rql_nonce")

for i = 1, 4 do
    if (held[i] or "") ~= ARGV[i] then
        return "0 0"
    end
end
