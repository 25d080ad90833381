-- Takes the lock if it is free and the proposed token is above the fence.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value of the lock: the holder, a colon and the proposed token, 16 digits
-- ARGV[2] TTL, ms   ARGV[3] when to forget the fence, ms since 1970; 0: never
--
-- Returns for how many ms the lock is kept if this very request holds it, now or
-- since a first time of which the reply was lost. Otherwise
--   {'held', value, ms left}    somebody else holds it
--   {'stale', fence, time}      it is free, but the token is not above the fence, or far
--                               behind the clock
--   {'ahead', fence, time}      it is free, but the token is too far ahead
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
local digits = string.sub(ARGV[1], -16)
local token = tonumber(digits)
local time, verdict
-- A token that is one step above a fence at most is good whatever the time, which is
-- dear to ask for. Servers before 7.0 may not know PXAT, and do not tell their version.
if not (record and token > fence and token <= fence + STEP and redis.REDIS_VERSION_NUM) then
  local t = redis.call('TIME')
  time = t[1] * 1000000 + t[2]
  if token <= fence or token < time - LAG then
    verdict = 'stale'
  elseif token > time + LEAD and token > fence + STEP then
    verdict = 'ahead'
  end
end
if not verdict and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if ARGV[3] == '0' then
    redis.call('SET', KEYS[2], digits .. release)
  elseif time then
    -- A token behind the clock does not shorten the time.
    redis.call('SET', KEYS[2], digits .. release, 'PX', math.ceil(ARGV[3] - math.min(token, time) / 1000))
  else
    redis.call('SET', KEYS[2], digits .. release, 'PXAT', ARGV[3])
  end
  return tonumber(ARGV[2])
end
local current = redis.call('GET', KEYS[1])
if current == ARGV[1] then
  return redis.call('PTTL', KEYS[1])
elseif current then
  return {'held', current, redis.call('PTTL', KEYS[1])}
end
return {verdict, string.format('%.0f', fence), string.format('%.0f', time)}
