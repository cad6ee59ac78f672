-- This function is about the slots of a lock of several: a map with four slots in each hexadecimal digit. Slot 0 is the
-- lowest bit of the first digit. Slots behind the end of the map are free.
--
-- out: take_slots

-- Takes the n lowest free slots. Returns the new map and these slots: rising numbers with commas between them.
local function take_slots(map, n)
    local slots, at = "", 1
    for i = 1, n do
        at = map:match("^f*()", at)
        local digit, bit, slot = tonumber(map:sub(at, at), 16) or 0, 1, 4 * (at - 1)
        while digit % (2 * bit) >= bit do
            bit, slot = 2 * bit, slot + 1
        end
        map = map:sub(1, at - 1) .. string.format("%x", digit + bit) .. map:sub(at + 1)
        slots = (i == 1 and "" or slots .. ",") .. slot
    end
    return map, slots
end
