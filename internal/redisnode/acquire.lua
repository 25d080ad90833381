-- Takes the lock if it is free and the proposed token is above the fence.
--
-- KEYS[1] lock    KEYS[2] fence
-- ARGV[1] holder  ARGV[2] proposed token  ARGV[3] TTL, ms  ARGV[4] retention, ms
--
-- Returns for how many ms the lock is kept if this very request holds it, now or
-- since a first time of which the reply was lost. Otherwise
--   {'held', value, ms left}    somebody else holds it
--   {'stale', fence, time}      it is free, but the token is not above the fence, or far
--                               behind the clock
--   {'ahead', fence, time}      it is free, but the token is too far ahead
local record = redis.call('GET', KEYS[2])
local fence, release = 0, ''
if record then
  fence = tonumber(string.sub(record, 1, 16))
  if not fence then
    error('the fence record is damaged')
  end
  if #record > 16 then
    release = string.sub(record, -20)
  end
end
local t = redis.call('TIME')
local time = t[1] * 1000000 + t[2]
local token = tonumber(ARGV[2])
local value = ARGV[1] .. ':' .. ARGV[2]
local verdict
if token <= fence or token < time - LAG then
  verdict = 'stale'
elseif token > time + LEAD and token > fence + STEP then
  verdict = 'ahead'
elseif redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[3]) then
  if ARGV[4] == '0' then
    redis.call('SET', KEYS[2], ARGV[2] .. release)
  else
    local lead = token > time and math.ceil((token - time) / 1000) or 0
    redis.call('SET', KEYS[2], ARGV[2] .. release, 'PX', lead + ARGV[3] + ARGV[4])
  end
  return tonumber(ARGV[3])
end
local current = redis.call('GET', KEYS[1])
if current == value then
  return redis.call('PTTL', KEYS[1])
elseif current then
  return {'held', current, redis.call('PTTL', KEYS[1])}
end
return {verdict, string.format('%.0f', fence), string.format('%.0f', time)}
