-- Included by every script that deletes a lock which was seen before: whether it still is that grant.
--
-- Uses call and lock of the including script; ARGV begins with acq_id, hst_id, ts and nonce.

local held = call("HMGET", lock, "acq_id", "hst_id", "ts", "rql_nonce")

for i = 1, 4 do
    if (held[i] or "") ~= ARGV[i] then
        return "0 0"
    end
end
