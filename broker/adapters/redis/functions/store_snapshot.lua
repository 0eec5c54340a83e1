-- store_snapshot: versions and marks as of one sequence (a plain counter).
-- KEYS  1 control  2 versions  3 marks     ARGV  1 want_gen  2 min_seq
-- Returns {seq, {tool@version, record, …}, {scope, seq, …}}
local function store_snapshot(keys, args)
  local failure, _, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  return {seq, redis.call('HGETALL', keys[2]), redis.call('HGETALL', keys[3])}
end

redis.register_function{function_name = 'store_snapshot_1', callback = store_snapshot, flags = {'no-writes'}}
