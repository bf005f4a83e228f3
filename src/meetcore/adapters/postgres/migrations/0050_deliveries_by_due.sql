-- online
-- What is due next, without the state of a delivery: a statement that names the state may be planned by an index of another
-- order, and then reads all that waits. `deliveries_due` is left to processes of the release before.
-- for each partition
CREATE INDEX deliveries_by_due ON deliveries (due_at) WHERE due_at IS NOT NULL AND NOT is_throttled;
