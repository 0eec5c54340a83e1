-- version_change: put version records in place and revoke scopes, if the sequence (a plain counter) is what the caller saw.
-- KEYS  1 control  2 states  3 versions  4 marks  5 outbox  6 idempotency  7 feed
-- ARGV  1 want_gen  2 min_seq  3 seq seen  4 intent  5 number of versions  then for each: tool@version, state, record  then scopes
-- Returns {'applied' | 'repeated', gen, seq, gseq} | {'moved', seq} (nothing written)
local function version_change(keys, args)
  local failure, gen, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local known = known_step(keys[6])
  if known then return known end
  if seq ~= tonumber(args[3]) then return {'moved', seq} end
  local fields = {}
  local last = 5 + 3 * tonumber(args[5])
  for at = 6, last, 3 do
    redis.call('HSET', keys[2], args[at], args[at + 1])
    redis.call('HSET', keys[3], args[at], args[at + 2])
    fields[#fields + 1] = 'v:' .. args[at]
    fields[#fields + 1] = args[at + 2]
  end
  put_marks(keys[4], args, last + 1, seq + 1, fields)
  return finish_step(keys[1], keys[5], keys[6], keys[7], gen, seq + 1, args[4], fields)
end

redis.register_function{function_name = 'version_change_1', callback = version_change, flags = {'allow-oom'}}
