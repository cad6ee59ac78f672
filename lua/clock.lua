-- Included by every script that needs the time.
--
-- Uses call of the including script. now_text is microseconds since 1970 in digits, now_seconds what the gem
-- writes. Texts, because numbers are slow to print and to read. Who has to reckon writes now_text + 0, which
-- reads the digits once; tonumber() reads them twice.

-- Seconds with six decimals in the gem's form: the shortest, but ".0" if whole (wire.md 3).
local function shortest(text)
    return (string.gsub(string.gsub(text, "0+$", ""), "%.$", ".0"))
end

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
if string.byte(micros, -1) == 48 then
    now_seconds = shortest(now_seconds)
end
