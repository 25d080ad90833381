-- Extends the lock if this grant holds it, and never takes it again.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value of the lock   ARGV[2] TTL, ms   ARGV[3] retention, ms
-- ARGV[4] 1 on one node of several: the lock's time is not made shorter. There a renewal
-- may come late that nobody waited for, and would end what was promised since.
--
-- Returns 1; 0 if another grant holds the lock; {'free', fence, time} if none does.
local current = redis.call('GET', KEYS[1])
if not current then
  return {'free', digits((read_fence(KEYS[2]))), digits(now())}
elseif current ~= ARGV[1] then
  return 0
end
-- The expiry first: a server out of memory lets a script write that has begun to.
local left = tonumber(ARGV[2])
if ARGV[4] == '1' then
  left = math.max(left, redis.call('PTTL', KEYS[1]))
end
redis.call('PEXPIRE', KEYS[1], left)
-- The fence is kept for as long as the lock may stand, and put back if it is gone.
local fence, release = read_fence(KEYS[2])
local token, time = tonumber(string.sub(ARGV[1], -16)), now()
if not needless(token, fence, time) then
  write_fence(KEYS[2], math.max(fence, token), release, time, left, tonumber(ARGV[3]))
end
return 1
