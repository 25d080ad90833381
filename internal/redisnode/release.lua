-- Gives the lock back if this grant holds it. The same release sent again, since
-- its reply was lost, succeeds again.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value  ARGV[2] token  ARGV[3] id of this release  ARGV[4] retention, ms
-- ARGV[5] channel
--
-- Returns 1 and how many wait for the lock, or 0 if this grant does not hold it.
local fence, release = read_fence(KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return release == ARGV[3] and 1 or 0
end
-- The lock first: a server out of memory lets a script write that has begun to.
redis.call('DEL', KEYS[1])
write_fence(KEYS[2], math.max(fence, tonumber(ARGV[2])), ARGV[3], now(), 0, tonumber(ARGV[4]))
return 1 + wake(ARGV[5], ARGV[2])
