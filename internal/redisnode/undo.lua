-- Undoes an acquire of which the outcome is unknown: gives the lock back if it was
-- taken, and lifts the fence so that the request is refused if it still arrives.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value of the lock   ARGV[2] retention, ms
-- ARGV[3] channel   ARGV[4] 1 if listeners may be on other servers
--
-- Returns 1 if the lock had been taken, else 0.
local digits = string.sub(ARGV[1], -16)
local taken = redis.call('GET', KEYS[1]) == ARGV[1]
if taken then
  redis.call('DEL', KEYS[1])
  wake(ARGV[3], digits, ARGV[4])
end
local fence, release = read_fence(KEYS[2])
local time = now()
local token = tonumber(digits)
if token > fence and not too_far(token, fence, time) then
  lift_fence(KEYS[2], token, release, time, tonumber(ARGV[2]))
end
return taken and 1 or 0
