-- What a renewal answers to a holder with on_wanted: how many wait, and until when the holder was asked to release the
-- lock (ask.lua), in microseconds; 0: it was not asked.
--
-- in: call lock queue nonce
-- out: wanted

local asked = call("HGET", lock, "rql_asked")
local wanted = " " .. call("ZCARD", queue) .. " " .. (asked and string.match(asked, nonce .. " (%d+)") or "0")
