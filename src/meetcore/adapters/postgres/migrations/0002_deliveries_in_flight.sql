-- At most so many posts in flight for one endpoint: what waits behind them is parked. What was held comes back
-- at a bounded pace.
ALTER TABLE webhook_endpoints ADD COLUMN released_until timestamptz;
ALTER TABLE deliveries
    ADD COLUMN is_parked boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT deliveries_parked_waits CHECK (NOT is_parked OR status = 'pending' AND lease_token IS NULL);
DROP INDEX deliveries_due;
DROP INDEX deliveries_held;
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE status = 'pending' AND NOT is_parked;
CREATE INDEX deliveries_parked ON deliveries (account_id, endpoint_id, due_at) WHERE is_parked;
CREATE INDEX deliveries_in_flight ON deliveries (account_id, endpoint_id) WHERE lease_token IS NOT NULL;
CREATE INDEX deliveries_held ON deliveries (account_id, endpoint_id, id) WHERE status = 'held';
CREATE INDEX deliveries_open ON deliveries (account_id, endpoint_id, id) WHERE status <> 'succeeded';
CREATE INDEX deliveries_held_at ON deliveries (held_at) WHERE status = 'held';
