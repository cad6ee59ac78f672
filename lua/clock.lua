-- The server's time. now_text is microseconds since 1970 in digits, now_seconds what the gem writes. Texts,
-- because numbers are slow to print and to read. Who has to reckon writes now_text + 0, which reads the
-- digits once; tonumber() reads them twice.
--
-- in: call
-- out: time micros now_text now_seconds is_less

-- Whether a whole number is less than another; both in digits without leading zeros.
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
    -- As the gem writes and reads them: the shortest form, but ".0" if whole.
    now_seconds = string.gsub(string.gsub(now_seconds, "0+$", ""), "%.$", ".0")
end
