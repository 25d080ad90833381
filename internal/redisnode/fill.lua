-- Puts back the lock of a grant that other nodes keep, and that this one said is
-- free, if nothing has changed since.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value of the lock   ARGV[2] the fence that this node told, 16 digits
-- ARGV[3] until when the other nodes keep the lock, us by this node's clock
-- ARGV[4] retention, ms
--
-- Returns 1, or 0 if the lock is not put back. One that had been kept for longer than
-- elsewhere could be renewed here when it is over there.
local fence, release = read_fence(KEYS[2])
local token = tonumber(string.sub(ARGV[1], -16))
if digits(fence) ~= ARGV[2] or token < fence then
  return 0
end
local time = now()
local left = math.floor((ARGV[3] - time) / 1000)
if left <= 0 or too_far(token, fence, time) or not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', left) then
  return 0
end
if needless(token, fence, time) then
  return 1
end
write_fence(KEYS[2], token, release, time, left, tonumber(ARGV[4]))
return 1
