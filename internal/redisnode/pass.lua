-- pass lifts a fence just above the token of a grant that is over, unless it is.
local function pass(key, value, retention)
  local fence, release = read_fence(key)
  local time = now()
  local above = tonumber(string.sub(value, -16)) + 1
  if above > fence and not too_far(above, fence, time) then
    lift_fence(key, above, release, time, retention)
  end
end
