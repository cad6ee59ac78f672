-- Removes the shares whose end has come: at most 200, or 50 if there are slots, which takes less than 1 ms. Those that
-- are left keep others out until the next call.
--
-- in: call keys group now_text remove_shares
-- out: ended

local ended = call("ZRANGE", keys[6], "-inf", now_text, "BYSCORE", "LIMIT", "0", group.map == "" and "200" or "50")
if ended[1] then
    remove_shares(group, keys, ended)
end
