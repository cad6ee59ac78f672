-- Included by every script that needs the time.
--
-- Uses call of the including script. now_text is microseconds since 1970 in digits, now_seconds what the gem
-- writes. Texts, because numbers are slow to print and to read; who has to reckon reads now_text.

-- Seconds with six decimals in the gem's form: the shortest, but ".0" if whole (wire.md 3).
local function shortest(text)
    return (string.gsub(string.gsub(text, "0+$", ""), "%.$", ".0"))
end

local time = call("TIME")
local micros = string.sub("00000" .. time[2], -6)
local now_text = time[1] .. micros
local now_seconds = time[1] .. "." .. micros
if string.byte(micros, -1) == 48 then
    now_seconds = shortest(now_seconds)
end
