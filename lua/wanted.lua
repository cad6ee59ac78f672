-- What a renewal answers to a holder with on_wanted: how many wait, and until when the holder was asked to release the
-- lock (ask.lua), in microseconds; 0: it was not asked. A queue of a foreign type counts as empty, because the lock has
-- been extended.
--
-- in: call lock queue nonce
-- out: wanted

local asked, n_waiting = call("HGET", lock, "rql_asked"), redis.pcall("ZCARD", queue)
local wanted = " " .. (type(n_waiting) == "number" and n_waiting or "0") .. " " ..
    (asked and string.match(asked, nonce .. " (%d+)") or "0")
