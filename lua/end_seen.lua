-- Included at the end of every script that deletes a lock which was seen before: it goes to the next waiter.
--
-- Uses seen.lua and what that uses; the chance is the fifth argument.

local is_deleted = call("DEL", lock)
if waiting == 0 or type(waiting) ~= "number" or type(records) ~= "number" then
    return is_deleted .. " 0" -- nobody waits, or what is there is no queue
end

local chance, me, oldest_us, turn = ARGV[5]
-- @include clock
-- @include waiters
-- @include alive
-- @include settle

return is_deleted .. " " .. served
