-- Gives the lock back if this grant holds it, as release.lua does, on one node of
-- several: if the reply is lost the others tell, so nothing is noted for a second time.
--
-- KEYS[1] lock
-- ARGV[1] value of the lock   ARGV[2] channel, or '' if nobody listens at this node
--
-- Returns 1 and how many wait for the lock, or 0 if this grant does not hold it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
if ARGV[2] == '' then
  return 1
end
return 1 + wake(ARGV[2], string.sub(ARGV[1], -16), '0')
