-- lease_renew: a verifier says how far it has got; what it is granted is bound to the sequence of now (a plain counter).
-- KEYS  1 control  2 leases  [3 assertion]
-- ARGV  1 want_gen  2 min_seq  3 verifier  4 client  5 gen it is at  6 seq it is at  7 call id  8 expires_at of the assertion
-- Kept as client|gen|seq|number, where no two grants have one number: a row that stays the same is of a verifier that is gone.
-- A claim keeps the rows and counts grants anew, so the number says in which gen it was given.
-- Grants go to replicas and not into the file: after a restart no lease counts, and a sync for each would hold up revocations.
-- A name is its client's for as long as it is kept: nobody speaks for another's verifier. Nor is anybody where the store is not yet.
-- Returns {'granted', seq} | {'refused', reason} (nothing written)
local function lease_renew(keys, args)
  local failure, gen, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  if is_replayed(keys[3], args[7]) then return {'refused', 'assertion_replayed'} end
  local held = redis.call('HGET', keys[2], args[3])
  if held and string.sub(held, 1, #args[4] + 1) ~= args[4] .. '|' then return {'refused', 'verifier_taken'} end
  use_up(keys[3], args[7], args[8])
  local at_gen, at_seq = tonumber(args[5]), tonumber(args[6])
  if at_gen > tonumber(gen) or (at_gen == tonumber(gen) and at_seq > seq) then at_gen, at_seq = 0, 0 end
  redis.set_repl(redis.REPL_REPLICA)
  local number = redis.call('HINCRBY', keys[1], 'leases', 1)
  local row = string.format('%s|%.0f|%.0f|%s.%.0f', args[4], at_gen, at_seq, gen, number)
  redis.call('HSET', keys[2], args[3], row)
  return {'granted', seq}
end

redis.register_function{function_name = 'lease_renew_1', callback = lease_renew, flags = {'allow-oom'}}
