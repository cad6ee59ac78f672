-- Reads the server's time. now_text is microseconds since 1970 in digits, now_seconds is seconds as the gem writes
-- them. Both are text, because numbers are slow to print and to read. Code that calculates with the time writes
-- now_text + 0, which reads the digits once; tonumber() reads them twice.
--
-- in: call
-- out: time micros now_text now_seconds is_less

-- Returns whether the whole number a is less than b. Both are digits without leading zeros.
local function is_less(a, b)
    return #a < #b or (#a == #b and a < b)
end

local time = call("TIME")
local micros = time[2]
if #micros < 6 then
    micros = string.rep("0", 6 - #micros) .. micros
end
local now_text = time[1] .. micros
local now_seconds = time[1] .. "." .. micros
if micros:byte(-1) == 48 then
    -- The gem writes and reads seconds in the shortest form, but with ".0" if they are whole.
    now_seconds = string.gsub(string.gsub(now_seconds, "0+$", ""), "%.$", ".0")
end
