-- credential_issue: remember a credential, unless the lifecycle moved or the version is not mintable (expires_at in Unix seconds).
-- KEYS  1 control  2 states  3 outbox  4 credential  [5 assertion]
-- ARGV  1 want_gen  2 min_seq  3 seq of the caller's view  4 tool@version  5 jti (16 bytes)  6 uses  7 expires_at  8 intent
--       9 expires_at of the assertion  10… gseq of steps whose records are durable
-- Returns {'issued', rseq, gseq} | {'refused', reason} (nothing written, a used-up assertion apart)
local function credential_issue(keys, args)
  local failure, gen, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local jti = args[5]
  local bytes = redis.call('GET', keys[4])
  if bytes then
    local known = unpack_record(bytes, jti)
    if not known then return redis.error_reply('FOREIGN the key holds something else') end
    if known.gen == tonumber(gen) then return {'issued', known.rseq, known.gseq} end
  end
  if is_replayed(keys[5], jti) then return {'refused', 'assertion_replayed'} end
  -- before the assertion is used up: the caller decides anew and comes back with the same one
  if seq ~= tonumber(args[3]) then return {'refused', 'stale_view'} end
  use_up(keys[5], jti, args[9])
  if not MINTABLE[redis.call('HGET', keys[2], args[4]) or ''] then return {'refused', 'not_mintable'} end
  local gseq = remember(keys[1], keys[3], gen, seq, args[8])
  local record = pack_record(jti, tonumber(gen), seq, gseq, tonumber(args[6]), tonumber(args[7]))
  redis.call('SET', keys[4], record, 'EXAT', args[7])
  forget(keys[3], args, 10)
  return {'issued', seq, gseq}
end

-- no allow-oom: where memory is full, nothing is minted
redis.register_function{function_name = 'credential_issue_1', callback = credential_issue}
