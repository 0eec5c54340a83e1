-- record: the bytes of a credential and of the outbox (format 1; gen in milliseconds, expires_at in Unix seconds).
-- credential  B format 1 · c16 jti · I6 gen · I6 rseq · I6 gseq · I4 uses left · I4 expires_at · 8 bytes for each counted use
-- outbox      gseq → gen|store's milliseconds|seq|intent; a gseq of an earlier gen is spelled gen:gseq
local LAYOUT = '>Bc16I6I6I6I4I4'
local FIXED_BYTES = 43
local UNLIMITED = 4294967295
local REMEMBERED_BYTES = 8 * 32 -- of the uses counted last: a repeated request is counted once

local MINTABLE = {canary = true, stable = true, deprecated = true}

local function pack_record(jti, gen, rseq, gseq, uses, expires_at)
  return struct.pack(LAYOUT, 1, jti, gen, rseq, gseq, uses, expires_at)
end

-- nil unless the bytes are a record of this very credential
local function unpack_record(bytes, jti)
  if not bytes or #bytes < FIXED_BYTES then return nil end
  local format, owner, gen, rseq, gseq, uses, expires_at = struct.unpack(LAYOUT, bytes)
  if format ~= 1 or owner ~= jti then return nil end
  return {gen = gen, rseq = rseq, gseq = gseq, uses = uses, expires_at = expires_at, used = string.sub(bytes, FIXED_BYTES + 1)}
end

-- number the step and keep what it intends until its audit record is durable
local function remember(control, outbox, gen, seq, intent)
  local gseq = redis.call('HINCRBY', control, 'gseq', 1)
  redis.call('HSET', outbox, gseq, gen .. '|' .. now_ms() .. '|' .. string.format('%.0f', seq) .. '|' .. intent)
  return gseq
end

-- the records of these steps are durable; in slices, since Lua passes at most some thousand arguments
local function forget(outbox, steps, first)
  local gone = 0
  for at = first, #steps, 1000 do
    gone = gone + redis.call('HDEL', outbox, unpack(steps, at, math.min(at + 999, #steps)))
  end
  return gone
end
