-- These functions admit waiters to a lock that is shared. `self` is what they share, see admit().
--
-- after: clock waiters serving remove_shares join
-- out: admit

-- Returns what becomes of the first waiter, and the access in its record: "stays", and so do all behind it;
-- "admitted"; "dead" or "silent".
local function turn_of_sharer(self, acquirer, record)
    local MOST, CLAIM_MS = 20, "1000" -- waiters without slots that one call admits; as in serve_queue.lua
    local call, keys, group, now_text = redis.call, self.keys, self.group, self.now_text
    local is_me = acquirer == self.me
    if is_me and not self.fits then
        return "stays"
    end
    local waiter = read_record(acquirer, record)
    local lives = waiter and (is_me or not self.silent[waiter.identity]
        and is_alive(keys[4], waiter, now_text, waiter.score_us))
    local units, limit, asks, rest_at, token, slots
    if lives and waiter.access:lower() == "h" then -- its share is the first pair of its packed metadata
        units, limit, asks, rest_at = waiter.metadata:match("rql_share.(%d+) (%d+)(s?)()")
    end
    local joins = units and group.used + units <= limit + 0 and group.owner ~= acquirer
        and call("HEXISTS", keys[1], "rql_h:" .. acquirer) == 0 -- an acquirer that has a share waits for its end
    if joins and self.work < MOST then
        waiter.acquirer, waiter.lease_ms, waiter.mark = acquirer, waiter.ttl_ms, "-"
        waiter.units, waiter.limit, waiter.asks = units, limit, asks
        waiter.metadata = rest_at > #waiter.metadata and ""
            or cmsgpack.pack({unpack(cmsgpack.unpack(waiter.metadata), 3)})
        if not is_me and is_less(CLAIM_MS, waiter.ttl_ms) then
            waiter.lease_ms, waiter.mark = CLAIM_MS, "c"
        end
        token, slots = join(group, keys, now_text, waiter) -- nothing in a pause
    end
    local paused_us = not token and self.n_admitted == 0 and pause_end(keys[5], now_text)
    if paused_us then
        self.free_ms = math.ceil((paused_us - now_text) / 1000)
        return "stays"
    elseif not waiter then
        -- @include ruby_beside_sharers
        return "stays"
    elseif not lives then
        return "dead", waiter.access
    elseif not token then
        if joins then
            notify(keys, waiter, waiter.nonce .. " look")
        end
        return "stays"
    end
    if is_me then
        self.token, self.slots = token, slots
    else
        local heard = notify(keys, waiter,
                             waiter.nonce .. " " .. token .. " " .. now_text .. " " .. waiter.lease_ms .. slots)
        if (heard or 0) == 0 then
            remove_shares(group, keys, {acquirer})
            self.silent[waiter.identity] = true
            return heard and "silent" or "stays", waiter.access -- without the right to publish it has to poll
        end
    end
    self.n_admitted, self.work = self.n_admitted + 1, self.work + 1 + (asks == "s" and units / 20 or 0)
    return "admitted", waiter.access
end

-- Admits the waiters that fit, from the head of the queue of a shared lock. The first one that does not fit keeps out
-- all behind it, so no waiter starves. A waiter that is dead or receives nothing leaves the queue, as in
-- serve_queue.lua. A key of a foreign type is left alone, and then no waiter is admitted. me is the waiter that the
-- script acts for, or nil; fits: it may be admitted.
--
-- Returns {n_admitted; token, slots: those of `me`, if it was admitted; free_ms: for how long no waiter is admitted, or
-- nil; is_partly: there was too much to do for one call; has_changed: waiters have left the queue}.
local function admit(group, keys, now_text, me, fits)
    local AT_ONCE, RUBYS_US = 8, 2000000 -- read as "0" to "7": a text costs less than a number
    local call, queue, requests = redis.call, keys[2], keys[3]
    local self = {group = group, keys = keys, now_text = now_text, me = me, fits = fits, n_admitted = 0,
                  work = 0, silent = {}}
    local page = redis.pcall("ZRANGE", queue, "0", "7")
    if page.err then
        return self
    elseif not page[1] then
        restore(queue, requests, 0)
        page = call("ZRANGE", queue, "0", "7")
    end
    local head = page[1] and redis.pcall("HMGET", requests, "ruby", page[1])
    if not head or head.err then
        return self
    end
    local record = head[2]
    local gone_us, ruby = string.match(head[1] or "", "^g (%d+) %S+ (.*)$")
    local left_us = gone_us and gone_us + RUBYS_US - now_text or 0
    if left_us > 0 and left_us <= RUBYS_US and page[1] ~= ruby then
        self.free_ms = math.ceil(left_us / 1000)
        return self
    end
    local budget = 30 -- as in serve_queue.lua
    while page[1] do
        for i = 1, #page do
            if budget <= 0 then
                self.is_partly = true
                return self
            end
            local fate, access = turn_of_sharer(self, page[i], record or call("HGET", requests, page[i]))
            record = nil
            if fate == "stays" then
                return self
            end
            self.has_changed = true
            call("ZREM", queue, page[i])
            forget(requests, page[i], access)
            budget = budget - (fate == "dead" and 1 or fate == "silent" and 3 or 0)
        end
        page = #page < AT_ONCE and {} or call("ZRANGE", queue, "0", "7")
    end
    return self
end
