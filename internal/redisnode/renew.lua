-- Extends the lock if this grant holds it, and never takes it again.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value of the lock   ARGV[2] TTL, ms   ARGV[3] retention, ms
--
-- Returns 1; 0 if another grant holds the lock; {'free', fence, time} if none does.
local current = redis.call('GET', KEYS[1])
if not current then
  return {'free', digits((read_fence(KEYS[2]))), digits(now())}
elseif current ~= ARGV[1] then
  return 0
end
-- The expiry first: a server out of memory lets a script write that has begun to.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
-- The fence is kept for as long as the lock may stand, and put back if it is gone.
local fence, release = read_fence(KEYS[2])
local token = tonumber(string.sub(ARGV[1], -16))
write_fence(KEYS[2], math.max(fence, token), release, now(), ARGV[2], tonumber(ARGV[3]))
return 1
