-- scope_revoke: every credential in these scopes with an rseq (a plain counter) below the returned seq is dead.
-- KEYS  1 control  2 marks  3 outbox  4 idempotency  5 feed     ARGV  1 want_gen  2 min_seq  3 intent  4… scopes
-- Returns {'applied' | 'repeated', gen, seq, gseq}
local function scope_revoke(keys, args)
  local failure, gen, seq = fence(keys[1], args[1], args[2])
  if failure then return failure end
  local known = known_step(keys[4])
  if known then return known end
  local fields = {}
  put_marks(keys[2], args, 4, seq + 1, fields)
  return finish_step(keys[1], keys[3], keys[4], keys[5], gen, seq + 1, args[3], fields)
end

redis.register_function{function_name = 'scope_revoke_1', callback = scope_revoke, flags = {'allow-oom'}}
