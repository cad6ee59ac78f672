-- Grants the lock: writes it with a TTL of lease_ms. fields holds names and values of further fields, from the
-- index first_field on.
--
-- in: call lock fence acquirer host ttl_ms nonce lease_ms fields first_field
-- after: clock
-- out: token
--
-- token is what token.lua makes. In a pause it is nil, and nothing was written.

-- @include token
if token then
    call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
         "rql_nonce", nonce, "rql_token", token, unpack(fields, first_field))
    if redis.pcall("PEXPIRE", lock, lease_ms) ~= 1 then
        call("DEL", lock) -- the right to PEXPIRE may be missing: a lock without a TTL would stay for ever
        return redis.call("PEXPIRE", lock, lease_ms) -- raises the error, out of any function that includes this
    end
end
