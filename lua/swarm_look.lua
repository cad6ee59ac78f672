-- Checks a page of the hosts. A host that has been silent for longer than ttl_us - wait_us is a suspect. A host
-- that has been a suspect for wait_us and silent for longer than ttl_us is dead.
--
-- @keys hosts suspects flusher
-- @args me lease_ms ttl_us wait_us cursor
-- me is elected for lease_ms unless another is elected; "": by hand, without election. cursor: "" only elects,
-- "-" steps down. A suspect is "<since> S <value>", a dead host "<since> D <value>"; both end with the host's
-- next probe. The field "" shows when the elected swarm last began to check.
-- Returns {0} when another is elected, else {1, next cursor, host, value, ...} of the dead hosts.

local call = redis.call
local hosts, suspects, flusher = KEYS[1], KEYS[2], KEYS[3]
local me, lease_ms, cursor = ARGV[1], tonumber(ARGV[2]), ARGV[5]
local ttl_us, wait_us = tonumber(ARGV[3]), tonumber(ARGV[4])
local PAGE = 100
local KEPT_MS = 60000 + math.ceil(20 * ttl_us / 1000)
-- @include clock
local now = tonumber(now_text)

-- Returns the age of a heartbeat in microseconds. nil: the value is no time, which never makes a host dead. A list of
-- hosts reads the same forms (rqli_gem_seconds()).
local function age_of(value)
    local digits, exponent = string.match(value, "^%+?(%d[%d.]*)(.*)$")
    if not digits or string.find(digits, "%..*%.") or string.find(digits, "%.$") then
        return nil
    elseif exponent ~= "" then
        local power = tonumber(string.match(exponent, "^[eE]([+-]?%d+)$") or "")
        if not power or math.abs(power) > 40 or #digits > 40 then
            return nil
        end
    end
    return now - tonumber(digits .. exponent) * 1000000
end

-- Notes the start of a round. Ends all suspicions if no swarm has checked for longer than wait_us, or the clock has
-- jumped, because hosts could not clear themselves; and if there are more than hosts, because a Ruby swarm removes a
-- host without its suspicion.
local function begin_round()
    local last = tonumber(call("HGET", suspects, "") or 0) or 0
    if now - last > wait_us or last > now or call("HLEN", suspects) > call("HLEN", hosts) + 1 then
        call("UNLINK", suspects)
    end
    call("HSET", suspects, "", string.format("%.0f", now))
    call("PEXPIRE", suspects, KEPT_MS)
end

-- Returns true if the host is dead, and updates its suspicion.
local function judge(host, value)
    local age = age_of(value)
    local record = call("HGET", suspects, host) or ""
    local since, state, seen = string.match(record, "^(%d+) (%a) (.*)$")
    if not age or age <= ttl_us - wait_us then
        if since and seen ~= value then
            call("HDEL", suspects, host)
        end
        return false
    end
    if seen ~= value then
        since, state = string.format("%.0f", now), "N"
    end
    local is_dead = age > ttl_us and (state == "D" or now - tonumber(since) >= wait_us)
    local new_state = is_dead and "D" or "S"
    if new_state ~= state then
        call("HSET", suspects, host, since .. " " .. new_state .. " " .. value)
        call("PEXPIRE", suspects, KEPT_MS)
    end
    return is_dead
end

local elected = me ~= "" and call("GET", flusher)
if elected and elected ~= me then
    return {0}
end
-- There is no such field. But a full server refuses no write behind one that needs no memory.
call("HDEL", suspects, "-")
if me ~= "" then
    if cursor == "-" then
        call("DEL", flusher)
        return {1, "0"}
    end
    call("SET", flusher, me, "PX", lease_ms)
    if cursor == "" then
        return {1, "0"}
    elseif cursor == "0" then
        begin_round()
    end
end
local page = call("HSCAN", hosts, cursor, "COUNT", PAGE)
local answer = {1, page[1]}
for i = 1, #page[2], 2 do
    if page[2][i] ~= "" and judge(page[2][i], page[2][i + 1]) then
        answer[#answer + 1] = page[2][i]
        answer[#answer + 1] = page[2][i + 1]
    end
end
return answer
