-- outbox_acknowledge: the records of these steps are durable (plain counters; steps of an earlier gen as gen:gseq).
-- KEYS  1 control  2 outbox     ARGV  1 want_gen  2 min_seq  3… steps
-- Returns how many were there
local function outbox_acknowledge(keys, args)
  local failure = fence(keys[1], args[1], args[2])
  if failure then return failure end
  return forget(keys[2], args, 3)
end

redis.register_function{function_name = 'outbox_acknowledge_1', callback = outbox_acknowledge, flags = {'allow-oom'}}
