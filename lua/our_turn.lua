-- Included by serve_queue.lua where it is the turn of a waiter of ours: it gets the lock, or is dead, or its client
-- does not hear, or the lock stays free for it or another.
--
-- Uses what serve_queue.lua uses, waiter and the words of its record. Leaves turn, or a waiter that is passed.

local identity = identity_of(waiter)
if not silent[identity] and is_alive(live, identity, now_text, until_us) then
    local heard
    if (not hears_all or n_rubies > 0) and notify(identity, "hello") == 0 then
        heard = 0 -- where one did not hear there may be many: a word is cheaper than a grant
    elseif n_rubies > 0 then
        -- @include last_ruby
    end
    if turn or heard then
        cost = SILENT
    elseif reserved_for and not may_pass and not (serves_marked and access < "a") then
        cost = KEPT
    elseif access == "s" or access == "S" then
        -- No script but its own sees all of its locks: it is told to look at once. (The text is no grant:
        -- who knows only those skips it.) Not by one that cannot take the lock: two would tell each other
        -- without end.
        heard = yields and 1 or notify(identity, nonce .. " look")
        if not heard then
            turn = "free"
        elseif heard > 0 and not reserved_for then
            -- @include reserve
        elseif heard > 0 then
            cost = KEPT
        end
    else
        -- @include hand_over
    end
    if heard == 0 then
        silent[identity], hears_all = true, false
        cost = SILENT
    end
end
