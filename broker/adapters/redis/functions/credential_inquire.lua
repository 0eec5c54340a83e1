-- credential_inquire: is this credential active, and may it be used once more (uses are counts)?
-- KEYS  1 control  2 states  3 marks  4 credential  [5 assertion]
-- ARGV  1 want_gen  2 min_seq  3 gen  4 rseq  5 tool@version  6 jti (16 bytes)  7 use (8 bytes, empty: look only)
--       8 call id  9 expires_at of the assertion  10… revocation scopes
-- Returns {'active' | 'absent' | 'revoked' | 'used_up' | 'assertion_replayed'}
local function is_used_before(used, use)
  for at = 1, #used, 8 do
    if string.sub(used, at, at + 7) == use then return true end
  end
  return false
end

local function is_marked(marks, rseq, args)
  if #args < 10 then return true end -- a credential that stands in no scope could never be revoked
  for _, mark in ipairs(redis.call('HMGET', marks, unpack(args, 10))) do
    if mark and tonumber(mark) > rseq then return true end
  end
  return false
end

local function credential_inquire(keys, args)
  local failure, gen = fence(keys[1], args[1], args[2])
  if failure then return failure end
  if is_replayed(keys[5], args[8]) then return {'assertion_replayed'} end
  use_up(keys[5], args[8], args[9])
  local record = unpack_record(redis.call('GET', keys[4]), args[6])
  if not record then return {'absent'} end
  if args[3] ~= gen or record.gen ~= tonumber(gen) or record.rseq ~= tonumber(args[4]) then return {'revoked'} end
  if not MINTABLE[redis.call('HGET', keys[2], args[5]) or ''] then return {'revoked'} end
  if is_marked(keys[3], record.rseq, args) then return {'revoked'} end
  if record.uses == UNLIMITED then return {'active'} end
  local use = args[7]
  if use ~= '' and is_used_before(record.used, use) then return {'active'} end
  if record.uses == 0 then return {'used_up'} end
  if use ~= '' then
    local used = string.sub(record.used .. use, -REMEMBERED_BYTES)
    local left = pack_record(args[6], record.gen, record.rseq, record.gseq, record.uses - 1, record.expires_at)
    redis.call('SET', keys[4], left .. used, 'KEEPTTL')
  end
  return {'active'}
end

redis.register_function{function_name = 'credential_inquire_1', callback = credential_inquire, flags = {'allow-oom'}}
