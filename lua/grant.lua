-- Grants the lock: writes it, to live for lease_ms. fields are names and values of more fields, from
-- first_field on.
--
-- in: call lock fence acquirer host ttl_ms nonce lease_ms fields first_field now_text now_seconds is_less
-- out: token
--
-- token is text: the time, so that it is above every earlier one also after the server lost data; but one
-- more than the last where that is not less, for the clock may stand still or be set back. It is nil, and
-- nothing was written, in a pause.

local token = now_text
-- @include fence
if is_paused then
    token = nil
elseif before and tonumber(before) and not is_less(before, token) then
    token = string.format("%.0f", before + 1)
    call("SET", fence, token)
end
if token then
    call("HSET", lock, "acq_id", acquirer, "hst_id", host, "ts", now_seconds, "ini_ttl", ttl_ms,
         "rql_nonce", nonce, "rql_token", token, unpack(fields, first_field))
    if redis.pcall("PEXPIRE", lock, lease_ms) ~= 1 then
        call("DEL", lock) -- the right to may be missing: a lock without ttl would stay for ever
        return redis.call("PEXPIRE", lock, lease_ms) -- the error, out of whatever function includes this
    end
end
