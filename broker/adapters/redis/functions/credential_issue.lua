-- credential_issue: remember a credential (expires_at in Unix seconds), unless the lifecycle moved, its version is not mintable,
-- or a credential that it comes from is dead.
-- KEYS  1 control  2 states  3 outbox  4 credential  [5 assertion]  in a delegation also: marks, then each ancestor's credential
-- ARGV  1 want_gen  2 min_seq  3 seq of the caller's view  4 tool@version  5 jti (16 bytes)  6 uses  7 expires_at  8 intent
--       9 expires_at of the assertion, 0: there is none
--       for each ancestor, the first one first: jti, gen, rseq, tool@version, number of scopes, scopes…
--       then gseq of steps whose records are durable
-- Returns {'issued', rseq, gseq} | {'refused', reason} (nothing written, a used-up assertion apart)
local NO_ASSERTION = '0'

-- whether a mark on these scopes is newer than rseq; one on a signing key counts always, since who has the key may claim any rseq
local function is_marked(marks, rseq, args, first, last)
  if last < first then return true end -- a credential that stands in no scope could never be revoked
  for at, mark in ipairs(redis.call('HMGET', marks, unpack(args, first, last))) do
    if mark and (tonumber(mark) > rseq or string.sub(args[first + at - 1], 1, 4) == 'key:') then return true end
  end
  return false
end

-- the record of a credential that another comes from, while it has one and its version is mintable; marks are not looked at
local function standing_ancestor(key, states, jti, gen, rseq, version)
  local record = unpack_record(redis.call('GET', key), jti)
  if not record or record.gen ~= tonumber(gen) or record.rseq ~= tonumber(rseq) then return nil end
  if not MINTABLE[redis.call('HGET', states, version) or ''] then return nil end
  return record
end

-- nil, where the arguments go on, the parent's record if there is one | why nothing may come of these ancestors
local function judge_ancestors(keys, args, marks, gen)
  local at, parent = 10, nil
  for key = marks + 1, #keys do
    local last = at + 4 + tonumber(args[at + 4])
    parent = args[at + 1] == gen and standing_ancestor(keys[key], keys[2], args[at], gen, args[at + 2], args[at + 3])
    if not parent or is_marked(keys[marks], parent.rseq, args, at + 5, last) then return 'ancestor_dead' end
    parent.jti, at = args[at], last + 1
  end
  if parent and parent.uses == 0 then return 'parent_used_up' end
  return nil, at, parent
end

-- an exchange is one use of the parent
local function count_exchange(key, parent)
  if parent.uses == UNLIMITED then return end
  local left = pack_record(parent.jti, parent.gen, parent.rseq, parent.gseq, parent.uses - 1, parent.expires_at)
  redis.call('SET', key, left .. parent.used, 'KEEPTTL')
end

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
  local assertion = args[9] ~= NO_ASSERTION and keys[5] or nil
  if is_replayed(assertion, jti) then return {'refused', 'assertion_replayed'} end
  -- before the assertion is used up: the caller decides anew, or refuses, and comes back with the same one
  if seq ~= tonumber(args[3]) then return {'refused', 'stale_view'} end
  local reason, audited, parent = judge_ancestors(keys, args, assertion and 6 or 5, gen)
  if reason then return {'refused', reason} end
  use_up(assertion, jti, args[9])
  if not MINTABLE[redis.call('HGET', keys[2], args[4]) or ''] then return {'refused', 'not_mintable'} end
  local gseq = remember(keys[1], keys[3], gen, seq, args[8])
  local record = pack_record(jti, tonumber(gen), seq, gseq, tonumber(args[6]), tonumber(args[7]))
  redis.call('SET', keys[4], record, 'EXAT', args[7])
  if parent then count_exchange(keys[#keys], parent) end
  forget(keys[3], args, audited)
  return {'issued', seq, gseq}
end

-- no allow-oom: where memory is full, nothing is minted
redis.register_function{function_name = 'credential_issue_1', callback = credential_issue}
