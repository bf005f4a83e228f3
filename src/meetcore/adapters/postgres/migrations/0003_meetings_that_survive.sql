-- Meetings that survive anything: hosts with a day's limit, a rest and a key of their own; meetings without a
-- host; an instant at which the clock sees to a meeting; where hosts become free
-- and how one is found that is; keys of the sandbox's hosts.
ALTER TABLE hosts
    ADD COLUMN creations integer NOT NULL DEFAULT 0 CHECK (creations >= 0),
    ADD COLUMN creations_on date,
    ADD COLUMN rests_until timestamptz,
    ADD COLUMN host_key bytea,
    ADD COLUMN key_token uuid,
    ADD COLUMN key_due_at timestamptz DEFAULT clock_timestamp();
CREATE INDEX hosts_key_due ON hosts (key_due_at) WHERE key_due_at IS NOT NULL;

ALTER TABLE meetings
    ALTER COLUMN host_id DROP NOT NULL,
    ADD COLUMN due_at timestamptz;
UPDATE meetings SET due_at = end_at WHERE status IN ('scheduled', 'started', 'cancelling');
-- A provider may give an id again when what had it is long over.
DROP INDEX meetings_at_provider;
CREATE UNIQUE INDEX meetings_open_at_provider ON meetings (provider, provider_meeting_id)
    WHERE status IN ('scheduled', 'cancelling', 'started');
CREATE INDEX meetings_at_provider ON meetings (provider, provider_meeting_id) WHERE provider_meeting_id IS NOT NULL;
CREATE INDEX meetings_due ON meetings (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX host_reservations_ends ON host_reservations (upper(during));
CREATE INDEX host_reservations_starts ON host_reservations (host_id, slot, lower(during));
CREATE INDEX host_reservations_lengths ON host_reservations ((upper(during) - lower(during)));

CREATE TABLE sandbox_host_keys (
    provider_user_id  text PRIMARY KEY,
    host_key          text NOT NULL,
    changed_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
