-- lease_renew: a verifier says how far it has got; what it is granted is bound to the sequence of now (a plain counter).
-- KEYS  1 control  2 leases  [3 assertion]
-- ARGV  1 want_gen  2 min_seq  3 verifier  4 client  5 gen it is at  6 seq it is at  7 call id  8 expires_at of the assertion
-- Kept as client|gen|seq|number, where each grant has another number: a row that stays the same is of a verifier that is gone.
-- Returns {'granted', seq} | {'refused', reason} (nothing written)
local function lease_renew(keys, args)
  local failure, _, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  if is_replayed(keys[3], args[7]) then return {'refused', 'assertion_replayed'} end
  use_up(keys[3], args[7], args[8])
  local number = redis.call('HINCRBY', keys[1], 'leases', 1)
  local row = args[4] .. '|' .. args[5] .. '|' .. args[6] .. '|' .. string.format('%.0f', number)
  redis.call('HSET', keys[2], args[3], row)
  return {'granted', seq}
end

redis.register_function{function_name = 'lease_renew_1', callback = lease_renew, flags = {'allow-oom'}}
