-- Takes the lock if it is free and the proposed token is above the fence.
--
-- KEYS[1] lock    KEYS[2] fence
-- ARGV[1] holder  ARGV[2] proposed token  ARGV[3] TTL, ms  ARGV[4] retention, ms
--
-- Returns for how many ms the lock is kept if this very request holds it, now or
-- since a first time of which the reply was lost. Otherwise
--   {'held', value, ms left}    somebody else holds it
--   {'stale', fence, time}      it is free, but the token is not above the fence
--   {'ahead', fence, time}      it is free, but the token is too far ahead
local value = ARGV[1] .. ':' .. ARGV[2]
local current = redis.call('GET', KEYS[1])
if current == value then
  return redis.call('PTTL', KEYS[1])
elseif current then
  return {'held', current, redis.call('PTTL', KEYS[1])}
end
local token = tonumber(ARGV[2])
local fence, release = read_fence(KEYS[2])
local time = now()
if token <= fence then
  return {'stale', string.format('%.0f', fence), string.format('%.0f', time)}
elseif too_far(token, fence, time) then
  return {'ahead', string.format('%.0f', fence), string.format('%.0f', time)}
end
local ttl = tonumber(ARGV[3])
-- The fence first: whatever stops the script between the two, no token comes twice.
write_fence(KEYS[2], token, release, time, ttl, tonumber(ARGV[4]))
redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
return ttl
