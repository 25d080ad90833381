-- Gives the lock back if this grant holds it, as release.lua does, on one node of
-- several: if the reply is lost the others tell, so nothing is noted for a second time.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value of the lock   ARGV[2] channel, or '' if nobody listens at this node
-- ARGV[3] retention, ms
--
-- Returns 1 and how many wait for the lock, or 0 if this grant does not hold it. In any
-- case the fence is above the token from now on, so that a renewal which has seen the
-- lock elsewhere does not put it back here.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  local above = redis.pcall('INCR', KEYS[2])
  if above == 1 then -- it was gone
    redis.call('DEL', KEYS[2])
  end
  if type(above) ~= 'number' or above == 1 then
    pass(KEYS[2], ARGV[1], tonumber(ARGV[3]))
  end
  if ARGV[2] == '' then
    return 1
  end
  return 1 + wake(ARGV[2], string.sub(ARGV[1], -16), '0')
end
pass(KEYS[2], ARGV[1], tonumber(ARGV[3]))
return 0
