-- What the gem does, as far as it comes to this server: golden/recordings has its commands. Its WATCH makes
-- one step of a try.
-- @keys lock queue
-- ARGV: try acquirer host ttl_ms score oldest, or leave acquirer, or release.

local lock, queue, acquirer = KEYS[1], KEYS[2], ARGV[2]

if ARGV[1] == "release" then -- whoever holds it by now
    return tostring(redis.call("EXPIRE", lock, "0"))
elseif ARGV[1] == "leave" then
    return tostring(redis.call("ZREM", queue, acquirer))
end
redis.call("ZADD", queue, "NX", ARGV[5], acquirer)
redis.call("ZREMRANGEBYSCORE", queue, "-inf", ARGV[6])
if redis.call("ZRANGE", queue, "0", "0")[1] ~= acquirer or redis.call("HGET", lock, "acq_id") then
    return "0"
end
redis.call("ZREM", queue, acquirer)
redis.call("HSET", lock, "acq_id", acquirer, "hst_id", ARGV[3], "ts", ARGV[5], "ini_ttl", ARGV[4])
redis.call("PEXPIRE", lock, ARGV[4])
return "1"
