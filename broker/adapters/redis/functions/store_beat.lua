-- store_beat: a write that says nothing but seq (a plain counter): does this store still take and replicate writes?
-- It goes to replicas and not into the file, which has nothing to gain from it.
-- KEYS  1 control     ARGV  1 want_gen  2 min_seq
-- Returns {'beating', seq (a plain counter)}
local function store_beat(keys, args)
  local failure, _, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  redis.set_repl(redis.REPL_REPLICA)
  redis.call('HSET', keys[1], 'beat', now_ms())
  return {'beating', seq}
end

redis.register_function{function_name = 'store_beat_1', callback = store_beat, flags = {'allow-oom'}}
