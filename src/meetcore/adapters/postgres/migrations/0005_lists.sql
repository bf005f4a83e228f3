-- Pages of an account's meetings by where they stand and when they start: ended ones are nearly all of them and are
-- found by the primary key. And the hosts whose keys are replaced, without those that never have one.
CREATE INDEX meetings_open ON meetings (account_id, id) WHERE status IN ('scheduled', 'cancelling', 'started');
CREATE INDEX meetings_cancelled ON meetings (account_id, id) WHERE status = 'cancelled';
CREATE INDEX meetings_in_time ON meetings (account_id, status, start_at);

DROP INDEX hosts_key_due;
CREATE INDEX hosts_key_due ON hosts (key_due_at) WHERE key_due_at IS NOT NULL AND is_active AND max_concurrent = 1;
