-- Makes the token of a grant, and writes it before the grant.
--
-- in: call fence
-- after: clock
-- out: token
--
-- token is text. It is the time, so that it is above every earlier token even after the server has lost data. If
-- the last token is not less than the time, because the server's clock stood still or was set back, token is one
-- more than the last one. In a pause token is nil, and nothing was written.

local token = now_text
-- @include fence
if is_paused then
    token = nil
elseif before and tonumber(before) and not is_less(before, token) then
    token = string.format("%.0f", before + 1)
    call("SET", fence, token)
end
