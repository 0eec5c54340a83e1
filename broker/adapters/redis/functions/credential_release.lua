-- credential_release: forget a credential; the sequence (a plain counter) does not move.
-- KEYS  1 control  2 credential  [3 assertion]
-- ARGV  1 want_gen  2 min_seq  3 jti (16 bytes)  4 call id  5 expires_at of the assertion
-- Returns {'released', 1 | 0 (there was none)} | {'refused', reason} (nothing written)
local function credential_release(keys, args)
  local failure = fence(keys[1], args[1], args[2])
  if failure then return failure end
  if is_replayed(keys[3], args[4]) then return {'refused', 'assertion_replayed'} end
  use_up(keys[3], args[4], args[5])
  if not unpack_record(redis.call('GET', keys[2]), args[3]) then return {'released', 0} end
  return {'released', redis.call('DEL', keys[2])}
end

redis.register_function{function_name = 'credential_release_1', callback = credential_release, flags = {'allow-oom'}}
