-- Behind end_shares(): admits waiters in place of the shares that have ended, or hands over the free lock.
--
-- in: call keys group random
-- after: clock remove_shares
-- out: served
--
-- served: lua/README.md 9.

local served = "0"
if call("EXISTS", keys[2], keys[3]) > 0 then
    -- @include waiters
    -- @include serving
    if group.used then
        -- @include join
        -- @include admit
        served = admit(group, keys, now_text).n_admitted > 0 and "1" or "0"
    else
        -- @include serve_queue
        served = select(4, serve(keys, now_text, now_seconds, random))
    end
end
