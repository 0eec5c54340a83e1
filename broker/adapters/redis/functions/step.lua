-- step: what moves the sequence by one (a plain counter; ids are remembered for 86 400 seconds).
-- A known id acts no second time; its answer is kept as gen|seq|gseq.
local REMEMBERED_SECONDS = 86400

local function known_step(key)
  local kept = redis.call('GET', key)
  if not kept then return nil end
  local gen, seq, gseq = string.match(kept, '^(%d+)|(%d+)|(%d+)$')
  return {'repeated', tonumber(gen), tonumber(seq), tonumber(gseq)}
end

-- keys  control, outbox, idempotency, feed
local function finish_step(control, outbox, idempotency, feed, gen, seq, intent, fields)
  redis.call('HSET', control, 'seq', string.format('%.0f', seq))
  local gseq = remember(control, outbox, gen, seq, intent)
  local kept = gen .. '|' .. string.format('%.0f', seq) .. '|' .. string.format('%.0f', gseq)
  redis.call('SET', idempotency, kept, 'EX', REMEMBERED_SECONDS)
  tell(feed, gen, seq, idempotency, fields)
  return {'applied', tonumber(gen), seq, gseq}
end

-- the fields of the feed's entry for marks that are put in place at seq
local function put_marks(marks, args, first, seq, fields)
  local spelled = string.format('%.0f', seq)
  for at = first, #args do
    redis.call('HSET', marks, args[at], spelled)
    fields[#fields + 1] = 'm:' .. args[at]
    fields[#fields + 1] = spelled
  end
end
