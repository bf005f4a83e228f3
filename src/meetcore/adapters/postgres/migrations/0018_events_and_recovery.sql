-- Events by kind, and by age for those past their 90 days.
CREATE INDEX events_of_kind ON events (account_id, kind, id);
CREATE INDEX events_age ON events (created_at);

-- When a delivery failed or expired, so that those since an instant can be sent again; and how many attempts were
-- made before it was, after which its schedule starts anew. One that expired had no attempt at its end: it counts as
-- 72 hours after it was made, or after its last attempt.
ALTER TABLE deliveries ADD COLUMN failed_at timestamptz;
ALTER TABLE deliveries ADD COLUMN attempts_before_recovery integer NOT NULL DEFAULT 0;
UPDATE deliveries d SET failed_at = coalesce(
        (SELECT a.at FROM delivery_attempts a
         WHERE a.account_id = d.account_id AND a.delivery_id = d.id AND a.number = d.attempts_made),
        d.created_at) + CASE d.status WHEN 'expired' THEN interval '72 hours' ELSE interval '0' END
    WHERE d.status IN ('failed', 'expired');
CREATE INDEX deliveries_failed ON deliveries (account_id, endpoint_id, failed_at) WHERE failed_at IS NOT NULL;

-- The secret before the last rotation, sealed as `secret` is, and until when it signs, too.
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret bytea;
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret_until timestamptz;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_previous_secret_check
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL));
CREATE INDEX webhook_endpoints_previous_secrets ON webhook_endpoints (previous_secret_until)
    WHERE previous_secret_until IS NOT NULL;
