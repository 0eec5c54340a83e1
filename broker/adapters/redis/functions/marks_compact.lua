-- marks_compact: one mark on everything for all marks that can no longer matter (horizon in milliseconds).
-- A mark at s kills what was minted below s. What was minted before a point of the clock that is longer ago than any credential
-- lives has expired; so at that point one mark `all` says what the older marks said. The point is noted first, used later.
-- KEYS  1 control  2 marks  3 outbox  4 idempotency  5 feed     ARGV  1 want_gen  2 min_seq  3 intent  4 horizon  5 fewest marks worth it
-- Returns {'applied' | 'repeated', gen, seq, gseq, covered} | {'early'} (nothing to do yet)
local function marks_compact(keys, args)
  local failure, gen, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local known = known_step(keys[4])
  if known then return known end
  local now = tonumber(now_ms())
  local noted = redis.call('HMGET', keys[1], 'noted_seq', 'noted_ms')
  local point, since = tonumber(noted[1] or ''), tonumber(noted[2] or '')
  if not point or not since or now < since then
    redis.call('HSET', keys[1], 'noted_seq', string.format('%.0f', seq), 'noted_ms', string.format('%.0f', now))
    return {'early'}
  end
  if now - since < tonumber(args[4]) then return {'early'} end
  redis.call('HSET', keys[1], 'noted_seq', string.format('%.0f', seq), 'noted_ms', string.format('%.0f', now))
  local all = tonumber(redis.call('HGET', keys[2], 'all') or '0')
  if point <= all or redis.call('HLEN', keys[2]) < tonumber(args[5]) then return {'early'} end
  local covered = string.format('%.0f', point)
  redis.call('HSET', keys[2], 'all', covered)
  local done = finish_step(keys[1], keys[3], keys[4], keys[5], gen, seq + 1, args[3], {'m:all', covered, 'covered', covered})
  done[5] = point
  return done
end

redis.register_function{function_name = 'marks_compact_1', callback = marks_compact, flags = {'allow-oom'}}

-- marks_sweep: take away marks that the mark on everything covers, some at a time; marks of signing keys stay for ever.
-- KEYS  1 control  2 marks     ARGV  1 want_gen  2 min_seq  3 cursor (0 at first)
-- Returns {next cursor (0 at the end), how many were taken away}
local SWEPT_AT_ONCE = '500'

local function marks_sweep(keys, args)
  local failure = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local all = tonumber(redis.call('HGET', keys[2], 'all') or '0')
  local found = redis.call('HSCAN', keys[2], args[3], 'COUNT', SWEPT_AT_ONCE)
  local gone = 0
  for at = 1, #found[2], 2 do
    local scope = found[2][at]
    if scope ~= 'all' and string.sub(scope, 1, 4) ~= 'key:' and tonumber(found[2][at + 1]) <= all then
      gone = gone + redis.call('HDEL', keys[2], scope)
    end
  end
  return {found[1], gone}
end

redis.register_function{function_name = 'marks_sweep_1', callback = marks_sweep, flags = {'allow-oom'}}
