-- Comes before acquire.lua where a node is one of several: it votes for a grant only
-- if the node is marked as the client knows it, and remembers for long enough.
--
-- KEYS[3] marker   ARGV[4] the marker that the client knows
-- ARGV[5] from when on the node may vote, us since 1970; 0 if that is known to be over
--
-- Returns {'unmarked', ...} if the marker is another one or gone, and
-- {'quarantined', '0', time} if it is too early.
local marker_and_fence = redis.call('MGET', KEYS[3], KEYS[2])
if marker_and_fence[1] ~= ARGV[4] then
  return {'unmarked', '0', '0'}
elseif ARGV[5] ~= '0' then
  local t = redis.call('TIME')
  local time = t[1] * 1000000 + t[2]
  if time < tonumber(ARGV[5]) then
    return {'quarantined', '0', string.format('%.0f', time)}
  end
end
local record = marker_and_fence[2]
