-- lease_forget: let go of verifiers whose rows are still what the caller saw (in a row: seq and number, plain counters).
-- KEYS  1 control  2 leases     ARGV  1 want_gen  2 min_seq  3… verifier, row
-- Returns how many were let go
local function lease_forget(keys, args)
  local failure = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local gone = 0
  for at = 3, #args, 2 do
    if redis.call('HGET', keys[2], args[at]) == args[at + 1] then
      gone = gone + redis.call('HDEL', keys[2], args[at])
    end
  end
  return gone
end

redis.register_function{function_name = 'lease_forget_1', callback = lease_forget, flags = {'allow-oom'}}
