-- In microseconds: LEAD is how far ahead of the server's clock a fence may be lifted,
-- STEP how far above itself where it is ahead of the clock already, and LAG how far
-- behind the clock a granted token may be. Without the last, a client with a slow clock
-- would get a low token where the fence was lost.
local LEAD, STEP, LAG = 10000000, 1048576, 20000000
