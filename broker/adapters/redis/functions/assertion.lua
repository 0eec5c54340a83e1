-- assertion: a client assertion is good for one call (expires_at in Unix seconds, by the store's clock).
-- What is kept is the id of the call that used it, so that a repeat of that call is none.
local function is_replayed(key, call)
  if not key then return false end
  local user = redis.call('GET', key)
  return user and user ~= call
end

local function use_up(key, call, expires_at)
  if key then redis.call('SET', key, call, 'EXAT', expires_at) end
end

-- assertion_take: use up an assertion for a request that touches no credential.
-- KEYS  1 control  2 assertion     ARGV  1 want_gen  2 min_seq  3 call id  4 expires_at
-- Returns {'taken'} | {'refused', reason} (nothing written)
local function assertion_take(keys, args)
  local failure = fence(keys[1], args[1], args[2])
  if failure then return failure end
  if is_replayed(keys[2], args[3]) then return {'refused', 'assertion_replayed'} end
  use_up(keys[2], args[3], args[4])
  return {'taken'}
end

redis.register_function{function_name = 'assertion_take_1', callback = assertion_take, flags = {'allow-oom'}}
