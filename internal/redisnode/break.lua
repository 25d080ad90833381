-- Ends the grant that was seen, whoever holds it.
--
-- KEYS[1] lock
-- ARGV[1] SHA-1 of the value that was seen, in hex  ARGV[2] channel  ARGV[3] token
--
-- Returns 1, or 0 if the lock has another value by now.
local current = redis.call('GET', KEYS[1])
if not current or redis.sha1hex(current) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
wake(ARGV[2], ARGV[3])
return 1
