-- store_inspect: look at the store, and at what this user may do there; nothing is written (time in Unix milliseconds).
-- KEYS  1 control  2 states  3 versions  4 marks  5 outbox  6 feed  7 leases  8 credential  9 assertion  10 idempotency (samples)
-- ARGV  none
-- Returns {'missing', right…} | {'found', run_id, fmt, claimed run_id, gen, seq, gseq (empty where unclaimed), time}
local function missing_rights(keys)
  local needed = {
    {'INFO', 'server'}, {'TIME'}, {'ROLE'}, {'WAIT', '0', '0'}, {'CLUSTER', 'SLOTS'},
    {'HMGET', keys[1], 'f'}, {'HSET', keys[1], 'f', 'v'}, {'HINCRBY', keys[1], 'f', 1}, {'DEL', keys[1]},
    {'HGET', keys[2], 'f'}, {'HSET', keys[3], 'f', 'v'}, {'HMGET', keys[4], 'f'}, {'HLEN', keys[4]}, {'HSCAN', keys[4], '0'},
    {'HGETALL', keys[5]}, {'HDEL', keys[5], 'f'},
    {'XADD', keys[6], '*', 'f', 'v'}, {'XREAD', 'STREAMS', keys[6], '0'}, {'DEL', keys[6]}, {'HSET', keys[7], 'f', 'v'},
    {'GET', keys[8]}, {'SET', keys[8], 'v'}, {'DEL', keys[8]}, {'SET', keys[9], 'v'}, {'SET', keys[10], 'v'},
  }
  local missing = {'missing'}
  for _, command in ipairs(needed) do
    if not redis.acl_check_cmd(unpack(command)) then missing[#missing + 1] = command[1] == 'CLUSTER' and 'CLUSTER|SLOTS' or command[1] end
  end
  return missing
end

local function store_inspect(keys, args)
  local missing = missing_rights(keys)
  if #missing > 1 then return missing end
  local held = redis.call('HMGET', keys[1], 'fmt', 'rid', 'gen', 'seq', 'gseq')
  local found = {'found', run_id()}
  for at = 1, 5 do found[#found + 1] = held[at] or '' end
  found[#found + 1] = now_ms()
  return found
end

redis.register_function{function_name = 'store_inspect_1', callback = store_inspect, flags = {'no-writes'}}
