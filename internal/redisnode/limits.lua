-- In microseconds: LEAD is how far ahead of the server's clock a fence may be lifted,
-- STEP how far above itself whatever the clock says, and LAG how far behind the clock a
-- token may be that is not such a step above its fence. Without LAG, a client with a
-- slow clock would get a low token where the fence was lost.
local LEAD, STEP, LAG = 10000000, 1048576, 20000000
