-- out: free_slots

-- Returns a map of slots without these ones, see take_slots.lua. There may be many: each digit is written once.
local function free_slots(map, slots)
    local BITS, free = {[0] = 1, 2, 4, 8}, {}
    for slot in slots:gmatch("%d+") do
        local bit = slot % 4
        local at = (slot - bit) / 4 + 1
        free[at] = (free[at] or 0) + BITS[bit]
    end
    for at, bits in pairs(free) do
        map = map:sub(1, at - 1) .. string.format("%x", tonumber(map:sub(at, at), 16) - bits) .. map:sub(at + 1)
    end
    return map
end
