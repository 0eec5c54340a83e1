-- store_claim: make this incarnation ours, holding exactly what the audit log says (gen in milliseconds since 1970).
-- KEYS  1 control  2 states  3 versions  4 marks  5 outbox  6 feed (begins anew; leases stay, since they may still be in use)
-- ARGV  1 run_id found  2 claimed run_id found  3 gen found  4 seq found (as stored; empty where unclaimed)  5 new gen  6 new seq
--       7 nonce of this claim  8 number of versions  then for each: tool@version, state, record  then scope, seq pairs
-- Returns {'claimed'} | {'moved'} (nothing written: the store is no longer as found)
local function keep_older_steps(outbox, gen)
  local steps = redis.call('HGETALL', outbox)
  for at = 1, #steps, 2 do
    if not string.find(steps[at], ':', 1, true) then
      redis.call('HDEL', outbox, steps[at])
      redis.call('HSET', outbox, gen .. ':' .. steps[at], steps[at + 1])
    end
  end
end

local function store_claim(keys, args)
  local held = redis.call('HMGET', keys[1], 'rid', 'gen', 'seq', 'nonce')
  if run_id() ~= args[1] then return {'moved'} end
  if held[4] == args[7] and held[2] == args[5] and held[1] == args[1] then return {'claimed'} end
  if (held[1] or '') ~= args[2] or (held[2] or '') ~= args[3] or (held[3] or '') ~= args[4] then return {'moved'} end
  if held[2] and tonumber(held[2]) >= tonumber(args[5]) then return {'moved'} end
  if held[2] then keep_older_steps(keys[5], held[2]) end
  redis.call('DEL', keys[1], keys[2], keys[3], keys[4], keys[6])
  local last = 8 + 3 * tonumber(args[8])
  for at = 9, last, 3 do
    redis.call('HSET', keys[2], args[at], args[at + 1])
    redis.call('HSET', keys[3], args[at], args[at + 2])
  end
  for at = last + 1, #args, 2 do
    redis.call('HSET', keys[4], args[at], args[at + 1])
  end
  redis.call('HSET', keys[1], 'fmt', FORMAT, 'gen', args[5], 'rid', args[1], 'seq', args[6], 'gseq', 0, 'nonce', args[7])
  return {'claimed'}
end

redis.register_function{function_name = 'store_claim_1', callback = store_claim, flags = {'allow-oom'}}
