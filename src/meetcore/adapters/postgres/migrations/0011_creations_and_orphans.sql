-- What an account uses of a day's creations, and what is looked for at the provider after each creation.

-- How many meetings were made for an account on a day (UTC) on a host, where the provider limits them.
CREATE TABLE account_creations (
    account_id  uuid NOT NULL REFERENCES accounts,
    day         date NOT NULL,
    host_id     uuid NOT NULL REFERENCES hosts,
    creations   integer NOT NULL CHECK (creations >= 0),
    PRIMARY KEY (account_id, day, host_id)
) WITH (fillfactor = 50);
CREATE INDEX account_creations_days ON account_creations (day);

-- Creations whose provider is to be looked at for meetings with our reference that no record names, since a creation
-- or the last such meeting. `due_at` is when anyone may look next; taking a check pushes it past the lease.
CREATE TABLE orphan_checks (
    account_id   uuid NOT NULL,
    meeting_id   uuid NOT NULL,
    since        timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    failures     integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    lease_token  uuid,
    PRIMARY KEY (account_id, meeting_id),
    FOREIGN KEY (account_id, meeting_id) REFERENCES meetings
) WITH (fillfactor = 50);
CREATE INDEX orphan_checks_due ON orphan_checks (due_at);

-- What is in the making, and what was to be looked for once more after it was given up.
INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
SELECT account_id, id, clock_timestamp(), clock_timestamp() + interval '1 minute' FROM meetings
WHERE provider = 'zoom' AND (status = 'provisioning' OR status = 'abandoned' AND due_at IS NOT NULL);
UPDATE meetings SET due_at = NULL WHERE status = 'abandoned' AND due_at IS NOT NULL;
