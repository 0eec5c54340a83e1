-- step: what moves the sequence by one (a plain counter; ids are remembered for 86 400 seconds).
-- A known id acts no second time; its answer is kept as gen|seq|gseq.
local REMEMBERED_SECONDS = 86400

local function known_step(key)
  local kept = redis.call('GET', key)
  if not kept then return nil end
  local gen, seq, gseq = string.match(kept, '^(%d+)|(%d+)|(%d+)$')
  return {'repeated', tonumber(gen), tonumber(seq), tonumber(gseq)}
end

local function finish_step(control, outbox, idempotency, gen, seq, intent)
  redis.call('HSET', control, 'seq', string.format('%.0f', seq))
  local gseq = remember(control, outbox, gen, seq, intent)
  local kept = gen .. '|' .. string.format('%.0f', seq) .. '|' .. string.format('%.0f', gseq)
  redis.call('SET', idempotency, kept, 'EX', REMEMBERED_SECONDS)
  return {'applied', tonumber(gen), seq, gseq}
end
