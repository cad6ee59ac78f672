-- Included by every script that needs the time.
--
-- Uses call of the including script. now is microseconds since 1970, now_text the same in digits,
-- now_seconds what the gem writes. Texts, because numbers are slow to print and to read.

-- Seconds with six decimals as the gem writes them: shortest form, ".0" if whole (wire.md 3).
local function shortest(text)
    if string.byte(text, -1) ~= 48 then
        return text
    end
    return (string.gsub(string.gsub(text, "0+$", ""), "%.$", ".0"))
end

local time = call("TIME")
local micros = string.sub("00000" .. time[2], -6)
local now_text = time[1] .. micros
local now = tonumber(now_text)
local now_seconds = shortest(time[1] .. "." .. micros)
