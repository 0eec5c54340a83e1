-- version_change: put version records in place and revoke scopes, if the sequence (a plain counter) is what the caller saw.
-- KEYS  1 control  2 states  3 versions  4 marks  5 outbox  6 idempotency
-- ARGV  1 want_gen  2 min_seq  3 seq seen  4 intent  5 number of versions  then for each: tool@version, state, record  then scopes
-- Returns {'applied' | 'repeated', gen, seq, gseq} | {'moved', seq} (nothing written)
local function version_change(keys, args)
  local failure, gen, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local known = known_step(keys[6])
  if known then return known end
  if seq ~= tonumber(args[3]) then return {'moved', seq} end
  local last = 5 + 3 * tonumber(args[5])
  for at = 6, last, 3 do
    redis.call('HSET', keys[2], args[at], args[at + 1])
    redis.call('HSET', keys[3], args[at], args[at + 2])
  end
  for at = last + 1, #args do
    redis.call('HSET', keys[4], args[at], string.format('%.0f', seq + 1))
  end
  return finish_step(keys[1], keys[5], keys[6], gen, seq + 1, args[4])
end

redis.register_function{function_name = 'version_change_1', callback = version_change, flags = {'allow-oom'}}
