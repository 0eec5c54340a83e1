-- fence: which incarnation of the store this is (no function of its own; gen in milliseconds since 1970).
-- An incarnation is a server process and one history of its data: its run_id, and when this chunk was first used. The chunk lives
-- and dies with the process, and a replica that copies its primary whole gets a new one with the copy. So a primary that was
-- replaced, copied its successor and is made the primary again is not what was claimed, though its run_id is: it may lack steps.
local FORMAT = '1'
local own_run_id

local function run_id()
  if not own_run_id then
    local time = redis.call('TIME')
    own_run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') .. '-' .. time[1] .. '.' .. time[2]
  end
  return own_run_id
end

-- nil, gen, seq | an error reply: the store is not what the caller claimed, and nothing may be done
local function fence(control, want_gen, min_seq)
  local held = redis.call('HMGET', control, 'fmt', 'gen', 'rid', 'seq')
  if not held[2] then return redis.error_reply('NOGEN the store is not claimed') end
  if held[1] ~= FORMAT then return redis.error_reply('BADFORMAT the store is of another format') end
  if held[3] ~= run_id() then return redis.error_reply('FENCED the store is another incarnation') end
  if held[2] ~= want_gen then return redis.error_reply('BADGEN the store was claimed by another broker') end
  local seq = tonumber(held[4])
  if not seq or seq < tonumber(min_seq) then return redis.error_reply('REGRESSED the store lost revocations') end
  return nil, held[2], seq
end

-- Unix milliseconds as text, by the store's clock
local function now_ms()
  local time = redis.call('TIME')
  return time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000))
end
