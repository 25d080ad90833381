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
local fence, release = read_fence(KEYS[2])
local time = now()
local token = tonumber(ARGV[2])
local value = ARGV[1] .. ':' .. ARGV[2]
local verdict
if token <= fence or token < time - LAG then
  verdict = 'stale'
elseif too_far(token, fence, time) then
  verdict = 'ahead'
elseif redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[3]) then
  write_fence(KEYS[2], token, release, time, ARGV[3], tonumber(ARGV[4]))
  return tonumber(ARGV[3])
end
local current = redis.call('GET', KEYS[1])
if current == value then
  return redis.call('PTTL', KEYS[1])
elseif current then
  return {'held', current, redis.call('PTTL', KEYS[1])}
end
return {verdict, digits(fence), digits(time)}
