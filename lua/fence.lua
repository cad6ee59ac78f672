-- Makes a token the last one of this set of keys. In a pause the last one is not a number but "q <until_us> <token>"
-- (lua/README.md 46), which is longer than any number: it stays while the pause lasts.
--
-- in: call fence token
-- after: clock
-- out: before is_paused
--
-- before is the previous token if that is not less than the new one, or is in the text of a pause; else it is nil.

local last, before, is_paused = call("SET", fence, token, "GET")
if last and not is_less(last, token) then
    local until_us, of_pause = string.match(last, "^q (%d+) (%d+)$")
    before, is_paused = of_pause or last, until_us and is_less(now_text, until_us)
    if is_paused then
        call("SET", fence, last)
    end
end
