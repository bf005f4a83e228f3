-- Events, deliveries and attempts become partitioned by the id of event and delivery, which begins with a time. The table that
-- there was is the first partition of each, open at both ends: its index of each kind serves as the partition's, nothing
-- is read or moved, and a statement of the release before finds a table of the same name with the same columns. The
-- periodic task `partitions` ends it a week or two later and makes those that follow.
ALTER TABLE events RENAME TO events_first;
ALTER TABLE events_first RENAME CONSTRAINT events_pkey TO events_first_pkey;
ALTER INDEX events_of_kind RENAME TO events_first_account_id_kind_id_idx;
ALTER INDEX events_age RENAME TO events_first_created_at_idx;
ALTER INDEX events_of_subject RENAME TO events_first_account_id_subject_id_idx;
CREATE TABLE events (LIKE events_first INCLUDING CONSTRAINTS INCLUDING DEFAULTS) PARTITION BY RANGE (id);
ALTER TABLE events ADD PRIMARY KEY (account_id, id);
CREATE INDEX events_of_kind ON events (account_id, kind, id);
CREATE INDEX events_age ON events (created_at);
CREATE INDEX events_of_subject ON events (account_id, subject_id) WHERE subject_id IS NOT NULL;
ALTER TABLE events ATTACH PARTITION events_first FOR VALUES FROM (MINVALUE) TO (MAXVALUE);

ALTER TABLE deliveries RENAME TO deliveries_first;
ALTER TABLE deliveries_first RENAME CONSTRAINT deliveries_pkey TO deliveries_first_pkey;
ALTER INDEX deliveries_due RENAME TO deliveries_first_due_at_idx;
ALTER INDEX deliveries_throttled RENAME TO deliveries_first_account_id_endpoint_id_due_at_idx;
ALTER INDEX deliveries_in_flight RENAME TO deliveries_first_account_id_endpoint_id_idx;
ALTER INDEX deliveries_in_flight_at_host RENAME TO deliveries_first_lease_host_account_id_idx;
ALTER INDEX deliveries_held RENAME TO deliveries_first_account_id_endpoint_id_id_idx;
ALTER INDEX deliveries_open RENAME TO deliveries_first_account_id_endpoint_id_id_idx1;
ALTER INDEX deliveries_held_at RENAME TO deliveries_first_held_at_idx;
ALTER INDEX deliveries_failed RENAME TO deliveries_first_account_id_endpoint_id_failed_at_idx;
ALTER INDEX deliveries_of_endpoint RENAME TO deliveries_first_account_id_endpoint_id_id_idx2;
ALTER INDEX deliveries_of_notes RENAME TO deliveries_first_account_id_event_id_idx;
CREATE TABLE deliveries (LIKE deliveries_first INCLUDING CONSTRAINTS INCLUDING DEFAULTS) PARTITION BY RANGE (id);
ALTER TABLE deliveries ADD PRIMARY KEY (account_id, id);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE status = 'pending' AND NOT is_throttled;
CREATE INDEX deliveries_throttled ON deliveries (account_id, endpoint_id, due_at) WHERE is_throttled;
CREATE INDEX deliveries_in_flight ON deliveries (account_id, endpoint_id) WHERE lease_token IS NOT NULL;
CREATE INDEX deliveries_in_flight_at_host ON deliveries (lease_host, account_id) WHERE lease_token IS NOT NULL;
CREATE INDEX deliveries_held ON deliveries (account_id, endpoint_id, id) WHERE status = 'held';
CREATE INDEX deliveries_open ON deliveries (account_id, endpoint_id, id) WHERE status <> 'succeeded';
CREATE INDEX deliveries_held_at ON deliveries (held_at) WHERE status = 'held';
CREATE INDEX deliveries_failed ON deliveries (account_id, endpoint_id, failed_at) WHERE failed_at IS NOT NULL;
CREATE INDEX deliveries_of_endpoint ON deliveries (account_id, endpoint_id, id);
CREATE INDEX deliveries_of_notes ON deliveries (account_id, event_id)
    WHERE event_kind IN ('note.completed', 'note.failed');
ALTER TABLE deliveries ATTACH PARTITION deliveries_first FOR VALUES FROM (MINVALUE) TO (MAXVALUE);

ALTER TABLE delivery_attempts RENAME TO delivery_attempts_first;
ALTER TABLE delivery_attempts_first RENAME CONSTRAINT delivery_attempts_pkey TO delivery_attempts_first_pkey;
CREATE TABLE delivery_attempts (LIKE delivery_attempts_first INCLUDING CONSTRAINTS INCLUDING DEFAULTS)
    PARTITION BY RANGE (delivery_id);
ALTER TABLE delivery_attempts ADD PRIMARY KEY (account_id, delivery_id, number);
ALTER TABLE delivery_attempts ATTACH PARTITION delivery_attempts_first FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
