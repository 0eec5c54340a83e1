-- feed: one entry for each step that moved the sequence (a plain counter), under the id seq-0, in the tenant's stream.
-- fields  gen · id (idempotency key of the step) · m:<scope> → seq of its mark · v:<tool@version> → version record · covered → seq
--         whole: the step is too large for an entry
-- Entries beyond FEED_ENTRIES may be gone: who comes later reads everything instead.
local FEED_ENTRIES = '1024'
local LARGEST_ENTRY = 4000

local function tell(feed, gen, seq, id, fields)
  if #fields > LARGEST_ENTRY then fields = {'whole', '1'} end
  local entry = {'MAXLEN', '~', FEED_ENTRIES, string.format('%.0f-0', seq), 'gen', gen, 'id', id, unpack(fields)}
  local told = redis.pcall('XADD', feed, unpack(entry))
  if told.err then
    -- a stream that is ahead of the clock is not this clock's: whoever follows it sees a gap, and reads everything
    redis.call('DEL', feed)
    redis.call('XADD', feed, unpack(entry))
  end
end
