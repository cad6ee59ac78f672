-- Included by every script that writes times for the gem.

-- Microseconds as the gem writes seconds: shortest form, ".0" if whole (wire.md 3).
local function seconds(us)
    local text = string.format("%d.%06d", math.floor(us / 1000000), us % 1000000)
    if string.byte(text, -1) ~= 48 then
        return text
    end
    return (string.gsub(string.gsub(text, "0+$", ""), "%.$", ".0"))
end
