-- credential_inquire: is this credential active, and may it be used once more (uses are counts)?
-- KEYS  1 control  2 states  3 marks  4 credential  [5 assertion]  then each ancestor's credential
-- ARGV  1 want_gen  2 min_seq  3 gen  4 rseq  5 tool@version  6 jti (16 bytes)  7 use (8 bytes, empty: look only)
--       8 call id  9 expires_at of the assertion, 0: there is none
--       for each ancestor: jti, rseq, tool@version    then revocation scopes, the ancestors' too
-- Returns {'active' | 'absent' | 'revoked' | 'used_up' | 'assertion_replayed'}
local function is_used_before(used, use)
  for at = 1, #used, 8 do
    if string.sub(used, at, at + 7) == use then return true end
  end
  return false
end

-- where the scopes begin | nil: a credential that this one comes from is gone, or not of a mintable version
local function scopes_after_ancestors(keys, args, first, gen)
  local at = 10
  for key = first, #keys do
    if not standing_ancestor(keys[key], keys[2], args[at], gen, args[at + 1], args[at + 2]) then return nil end
    at = at + 3
  end
  return at
end

local function credential_inquire(keys, args)
  local failure, gen = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local assertion = args[9] ~= NO_ASSERTION and keys[5] or nil
  if is_replayed(assertion, args[8]) then return {'assertion_replayed'} end
  use_up(assertion, args[8], args[9])
  local record = unpack_record(redis.call('GET', keys[4]), args[6])
  if not record then return {'absent'} end
  if args[3] ~= gen or record.gen ~= tonumber(gen) or record.rseq ~= tonumber(args[4]) then return {'revoked'} end
  if not MINTABLE[redis.call('HGET', keys[2], args[5]) or ''] then return {'revoked'} end
  local scopes = scopes_after_ancestors(keys, args, assertion and 6 or 5, gen)
  if not scopes or is_marked(keys[3], record.rseq, args, scopes, #args) then return {'revoked'} end
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
