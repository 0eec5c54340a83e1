-- store_read: one of the tenant's hashes whole, with the clock it belongs to (time in Unix milliseconds).
-- KEYS  1 control  2 versions, marks or outbox     ARGV  1 want_gen  2 min_seq
-- Returns {seq, time, {field, value, …}}
local function store_read(keys, args)
  local failure, _, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  return {seq, now_ms(), redis.call('HGETALL', keys[2])}
end

redis.register_function{function_name = 'store_read_1', callback = store_read, flags = {'no-writes'}}
