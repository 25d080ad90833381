-- Lifts the fence to a floor.
--
-- KEYS[1] fence
-- ARGV[1] floor  ARGV[2] retention, ms
--
-- Returns 1, or {'ahead', fence, time} if the floor is too far ahead.
local floor = tonumber(ARGV[1])
local fence, release = read_fence(KEYS[1])
local time = now()
if floor <= fence then
  return 1
elseif too_far(floor, fence, time) then
  return {'ahead', digits(fence), digits(time)}
end
lift_fence(KEYS[1], floor, release, time, tonumber(ARGV[2]))
return 1
