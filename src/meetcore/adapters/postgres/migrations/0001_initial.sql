-- The whole schema. Until 0.1.0 is released a change is made here; from then on in a new step beside this file.
-- Everything that belongs to an account is keyed (account_id, ...). Each enum of the domain has a CHECK with its values.
--
-- A reference without a foreign key has its reason beside it:
--   caller    from the authenticated request. Keys and accounts are never deleted, and a check would lock their rows.
--   together  written in a transaction that wrote or read the row that it names, under the account's lock; that one is not
--             deleted before it.
--   ledger    proved by `meetcore credits verify`, over the whole ledger.
--   outlives  stays when the row that it names is deleted.
--   several   names rows of several tables.
--   outside   names something that is not in this database.

CREATE EXTENSION IF NOT EXISTS btree_gist;

-- An account and its funds. `statements_mailed` is the first day of the last month whose statement was mailed about, and
-- null where it was not asked for. The row is the account's lock: a transaction that changes anything that a later
-- decision of this account reads takes it FOR NO KEY UPDATE and raises `version`, by which a read that
-- had to wait for the lock sees that it must read again.
CREATE TABLE accounts (
    id                   uuid PRIMARY KEY,
    user_id              uuid NOT NULL,  -- no foreign key: outside
    email                text NOT NULL,
    full_name            text NOT NULL,
    created_at           timestamptz NOT NULL,
    version              bigint NOT NULL DEFAULT 0,
    balance              bigint NOT NULL DEFAULT 0 CHECK (balance BETWEEN -1000000000000000 AND 1000000000000000),
    held                 bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    low_threshold        bigint NOT NULL CHECK (low_threshold >= 0),
    is_low               boolean NOT NULL,
    entries              bigint NOT NULL DEFAULT 0 CHECK (entries >= 0),
    last_hash            bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex') CHECK (length(last_hash) = 32),
    last_at              timestamptz,
    suspended_at         timestamptz,
    suspension_reason    text,
    statements_mailed    date
) WITH (fillfactor = 50);
CREATE INDEX accounts_statements_mailed ON accounts (statements_mailed) WHERE statements_mailed IS NOT NULL;
-- An account is found by its e-mail address, and in the console by the beginning of it or of a name.
CREATE INDEX accounts_email_begins ON accounts (lower(email) text_pattern_ops);
CREATE INDEX accounts_name_begins ON accounts (lower(full_name) text_pattern_ops);

-- `first_key_id` is the first of the keys that one was rolled from; the usage of their cap is counted under its id.
CREATE TABLE api_keys (
    id             uuid PRIMARY KEY,
    account_id     uuid NOT NULL REFERENCES accounts,
    digest         bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    scopes         text[] NOT NULL CHECK (scopes <@ ARRAY[
        'meetings:read', 'meetings:write', 'notulen:read', 'notulen:write', 'recordings:read', 'recordings:write',
        'credits:read', 'credits:write', 'webhooks:read', 'webhooks:write']),
    daily_cap      bigint CHECK (daily_cap >= 0),
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    revoked_at     timestamptz,
    name           text NOT NULL DEFAULT 'API key',
    last_four      text,
    created_by     uuid,  -- no foreign key: outlives
    last_used_at   timestamptz,
    first_key_id   uuid REFERENCES api_keys,
    client_id      text,  -- no foreign key: outlives
    token_expires_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX api_keys_of_account ON api_keys (account_id, id);
CREATE INDEX api_keys_by_last_four ON api_keys (last_four);
CREATE INDEX api_keys_of_clients ON api_keys (client_id) WHERE client_id IS NOT NULL;

-- Programs that ask for grants: a grant is a key with a client. No secrets: redirect URIs identify them.
CREATE TABLE oauth_clients (
    id             text PRIMARY KEY,
    name           text NOT NULL,
    redirect_uris  text[] NOT NULL,
    created_at     timestamptz NOT NULL,
    fetched_at     timestamptz,
    used_at        timestamptz
);
CREATE INDEX oauth_clients_by_age ON oauth_clients (created_at);

-- Requests for grants, and their codes once they are allowed.
CREATE TABLE oauth_authorizations (
    id              uuid PRIMARY KEY,
    client_id       text NOT NULL,  -- no foreign key: outlives
    redirect_uri    text NOT NULL,
    state           text,
    code_challenge  text NOT NULL,
    scopes          text[] NOT NULL CHECK (scopes <@ ARRAY[
        'meetings:read', 'meetings:write', 'notulen:read', 'notulen:write', 'recordings:read', 'recordings:write',
        'credits:read', 'credits:write', 'webhooks:read', 'webhooks:write']),
    expires_at      timestamptz NOT NULL,
    key_id          uuid REFERENCES api_keys,
    key_expires_at  timestamptz,
    used_at         timestamptz,
    digest          bytea UNIQUE CHECK (length(digest) = 32)
);
CREATE INDEX oauth_authorizations_by_expiry ON oauth_authorizations (expires_at);
CREATE INDEX oauth_authorizations_of_keys ON oauth_authorizations (key_id) WHERE key_id IS NOT NULL;

-- Refresh tokens by their digests; a used one is kept for a while, so that its second use is noticed.
CREATE TABLE oauth_refresh_tokens (
    digest      bytea PRIMARY KEY CHECK (length(digest) = 32),
    key_id      uuid NOT NULL REFERENCES api_keys,
    created_at  timestamptz NOT NULL,
    used_at     timestamptz
);
CREATE INDEX oauth_refresh_tokens_of_keys ON oauth_refresh_tokens (key_id);
CREATE INDEX oauth_refresh_tokens_by_use ON oauth_refresh_tokens (used_at) WHERE used_at IS NOT NULL;

-- Who changed what, when and from where, of an account or of none. The service's role can only add to it.
CREATE TABLE audit_log (
    id               uuid PRIMARY KEY,
    account_id       uuid REFERENCES accounts,
    at               timestamptz NOT NULL,
    actor_kind       text NOT NULL CHECK (actor_kind IN ('member', 'guest', 'operator', 'system')),
    actor_id         uuid,  -- no foreign key: outlives
    actor_name       text NOT NULL,
    action           text NOT NULL,
    target_id        text NOT NULL,  -- no foreign key: several
    details          jsonb NOT NULL,
    client_address   text,
    is_impersonated  boolean NOT NULL
);
CREATE INDEX audit_log_of_account ON audit_log (account_id, id);
-- Who made a meeting by hand.
CREATE INDEX audit_log_of_meetings ON audit_log (account_id, target_id, id) WHERE action = 'meeting.created';

-- Who began payments, and who settled their doubts.
CREATE INDEX audit_log_of_payments ON audit_log (target_id, id)
    WHERE action IN ('payment.started', 'payment.accepted', 'payment.dismissed');

-- Users, known by an e-mail address without regard to case.
CREATE TABLE users (
    id          uuid PRIMARY KEY,
    email       text NOT NULL,
    full_name   text NOT NULL,
    created_at  timestamptz NOT NULL,
    language    text CHECK (language IN ('id', 'en'))
);
CREATE UNIQUE INDEX users_by_email ON users (lower(email));

-- Who belongs to which account, changed under the account's lock: an account keeps an owner. `mail_topics` has the topics
-- of mails that a member has chosen, true or false; of the others the role decides.
CREATE TABLE memberships (
    account_id  uuid NOT NULL REFERENCES accounts,
    user_id     uuid NOT NULL REFERENCES users,
    role        text NOT NULL CHECK (role IN ('owner', 'developer', 'finance', 'viewer')),
    created_at  timestamptz NOT NULL,
    mail_topics jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(mail_topics) = 'object'),
    PRIMARY KEY (account_id, user_id)
);
CREATE INDEX memberships_of_user ON memberships (user_id);

-- At most one invitation for an address is pending in an account.
CREATE TABLE invitations (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES accounts,
    email        text NOT NULL,
    role         text NOT NULL CHECK (role IN ('owner', 'developer', 'finance', 'viewer')),
    invited_by   uuid,  -- no foreign key: outlives
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    accepted_at  timestamptz,
    revoked_at   timestamptz
);
CREATE UNIQUE INDEX invitations_pending ON invitations (account_id, lower(email))
    WHERE accepted_at IS NULL AND revoked_at IS NULL;
CREATE INDEX invitations_of_account ON invitations (account_id);

-- Operators of the console. One who was removed keeps the record.
CREATE TABLE operators (
    id          uuid PRIMARY KEY,
    email       text NOT NULL,
    role        text NOT NULL CHECK (role IN ('support', 'finance', 'admin')),
    created_at  timestamptz NOT NULL,
    removed_at  timestamptz
);
CREATE UNIQUE INDEX operators_by_email ON operators (lower(email)) WHERE removed_at IS NULL;

-- Credits that one operator proposes to move and another one approves or rejects.
CREATE TABLE credit_proposals (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES accounts,
    kind         text NOT NULL CHECK (kind IN ('topup', 'adjustment', 'topup_refund')),
    amount       bigint NOT NULL CHECK (amount <> 0),
    reason       text NOT NULL,
    reference    text NOT NULL,
    proposed_by  uuid NOT NULL REFERENCES operators,
    proposer     text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    is_approved  boolean,
    decided_by   uuid REFERENCES operators,
    decider      text,
    decided_at   timestamptz,
    is_replaced  boolean NOT NULL DEFAULT false,
    CONSTRAINT credit_proposals_decided CHECK (num_nonnulls(is_approved, decided_by, decider, decided_at) IN (0, 4)),
    CONSTRAINT credit_proposals_by_another CHECK (decided_by <> proposed_by AND lower(decider) <> lower(proposer)),
    CONSTRAINT credit_proposals_replaced CHECK (NOT is_replaced OR is_approved IS NULL)
);
CREATE UNIQUE INDEX credit_proposals_reference ON credit_proposals (account_id, kind, reference)
    WHERE is_approved IS NOT FALSE AND NOT is_replaced;
CREATE INDEX credit_proposals_pending ON credit_proposals (expires_at) WHERE is_approved IS NULL;

-- Tokens by which programs of the operator's act in the console. `digest` is of the token; its text is not kept.
CREATE TABLE operator_tokens (
    id          uuid PRIMARY KEY,
    digest      bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    name        text NOT NULL,
    role        text NOT NULL CHECK (role IN ('support', 'finance', 'admin')),
    last_four   text NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);

-- One-time links. `digest` is of the token in the address, `browser_digest` of the cookie of the browser that asked.
CREATE TABLE sign_in_links (
    id              uuid PRIMARY KEY,
    digest          bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    purpose         text NOT NULL CHECK (purpose IN ('email', 'portal', 'invitation', 'operator')),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    account_id      uuid REFERENCES accounts,
    user_id         uuid REFERENCES users,
    guest_role      text CHECK (guest_role IN ('owner', 'developer', 'finance', 'viewer')),
    invitation_id   uuid REFERENCES invitations,
    operator_id     uuid REFERENCES operators,
    browser_digest  bytea CHECK (length(browser_digest) = 32),
    used_at         timestamptz,
    is_pinned       boolean NOT NULL DEFAULT false,
    CONSTRAINT sign_in_links_of_operators CHECK ((purpose = 'operator') = (operator_id IS NOT NULL)),
    CONSTRAINT sign_in_links_of_one CHECK (num_nonnulls(user_id, guest_role, invitation_id, operator_id) = 1)
);
CREATE INDEX sign_in_links_expiry ON sign_in_links (expires_at);
CREATE INDEX sign_in_links_of_user ON sign_in_links (user_id) WHERE used_at IS NULL;
CREATE INDEX sign_in_links_of_guests ON sign_in_links (account_id) WHERE guest_role IS NOT NULL AND used_at IS NULL;
CREATE INDEX sign_in_links_of_operator ON sign_in_links (operator_id) WHERE operator_id IS NOT NULL AND used_at IS NULL;

-- Sessions of customers: a user's, or a guest's of a role, in one account. `digest` is of the token in the cookie.
CREATE TABLE sessions (
    id                uuid PRIMARY KEY,
    digest            bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    account_id        uuid NOT NULL REFERENCES accounts,
    user_id           uuid REFERENCES users,
    guest_role        text CHECK (guest_role IN ('owner', 'developer', 'finance', 'viewer')),
    created_at        timestamptz NOT NULL,
    last_seen_at      timestamptz NOT NULL,
    authenticated_at  timestamptz NOT NULL,
    ended_at          timestamptz,
    user_agent        text NOT NULL,
    client_address    text,
    impersonated_by   uuid REFERENCES operators,
    is_pinned         boolean NOT NULL DEFAULT false,
    CONSTRAINT sessions_of_one CHECK (num_nonnulls(user_id, guest_role) = 1),
    CONSTRAINT sessions_impersonated CHECK (impersonated_by IS NULL OR guest_role = 'viewer')
) WITH (fillfactor = 70);
CREATE INDEX sessions_of_user ON sessions (user_id, id) WHERE ended_at IS NULL;
CREATE INDEX sessions_last_seen ON sessions (last_seen_at);
CREATE INDEX sessions_of_account ON sessions (account_id);
CREATE INDEX sessions_impersonated_by ON sessions (impersonated_by) WHERE impersonated_by IS NOT NULL;

-- Sessions of operators, in a table of their own: neither is ever taken for the other.
CREATE TABLE operator_sessions (
    id                uuid PRIMARY KEY,
    digest            bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    operator_id       uuid NOT NULL REFERENCES operators,
    created_at        timestamptz NOT NULL,
    last_seen_at      timestamptz NOT NULL,
    authenticated_at  timestamptz NOT NULL,
    ended_at          timestamptz,
    user_agent        text NOT NULL,
    client_address    text
) WITH (fillfactor = 70);
CREATE INDEX operator_sessions_of_operator ON operator_sessions (operator_id) WHERE ended_at IS NULL;
CREATE INDEX operator_sessions_last_seen ON operator_sessions (last_seen_at);

-- Who a user or an operator is at an OpenID provider, from the first sign-in there on.
CREATE TABLE identities (
    user_id      uuid REFERENCES users,
    operator_id  uuid REFERENCES operators,
    issuer       text NOT NULL,
    subject      text NOT NULL,
    bound_at     timestamptz NOT NULL,
    CONSTRAINT identities_of_one CHECK (num_nonnulls(user_id, operator_id) = 1),
    CONSTRAINT identities_of_user UNIQUE (user_id, issuer),
    CONSTRAINT identities_of_operator UNIQUE (operator_id, issuer)
);

-- Passkeys: each is a user's or an operator's. `public_key` is a COSE key; the private one is on the owner's device.
CREATE TABLE passkeys (
    id             uuid PRIMARY KEY,
    user_id        uuid REFERENCES users,
    operator_id    uuid REFERENCES operators,
    credential     bytea NOT NULL UNIQUE CHECK (length(credential) BETWEEN 1 AND 1023),
    public_key     bytea NOT NULL,
    sign_count     bigint NOT NULL CHECK (sign_count >= 0),
    name           text NOT NULL,
    created_at     timestamptz NOT NULL,
    last_used_at   timestamptz,
    CONSTRAINT passkeys_of_one CHECK (num_nonnulls(user_id, operator_id) = 1)
);
CREATE INDEX passkeys_of_user ON passkeys (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX passkeys_of_operator ON passkeys (operator_id) WHERE operator_id IS NOT NULL;

-- Challenges that were not answered. `digest` is of the challenge, `holder_digest` of the cookie of the browser that got it.
CREATE TABLE passkey_challenges (
    digest         bytea PRIMARY KEY CHECK (length(digest) = 32),
    purpose        text NOT NULL CHECK (purpose IN ('registration', 'sign_in')),
    is_operators   boolean NOT NULL,
    holder_digest  bytea NOT NULL CHECK (length(holder_digest) = 32),
    expires_at     timestamptz NOT NULL
);
CREATE INDEX passkey_challenges_expiry ON passkey_challenges (expires_at);

-- Requests for an account that wait for their link. `digest` is of the token in the link, `browser_digest` of the cookie
-- of the browser that asked. A link that is used deletes its request.
CREATE TABLE sign_ups (
    id              uuid PRIMARY KEY,
    digest          bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    email           text NOT NULL,
    full_name       text NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    browser_digest  bytea NOT NULL CHECK (length(browser_digest) = 32)
);
CREATE INDEX sign_ups_expiry ON sign_ups (expires_at);
CREATE INDEX sign_ups_of_email ON sign_ups (lower(email));

-- Double entry. A transfer has two legs in ledger_entries, the customer's and the system's, under
-- the customer's entry number; the customer's leg carries the running balance and the hash chain. `chain_key` names
-- the key that an entry is chained under, if there is one.
CREATE TABLE ledger_transfers (
    account_id      uuid NOT NULL REFERENCES accounts,
    id              uuid NOT NULL,
    operation       text NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('topup', 'topup_refund', 'meeting_charge', 'meeting_refund', 'notulen_charge', 'adjustment')),
    amount          bigint NOT NULL CHECK (amount BETWEEN 1 AND 1000000000000000),
    source          text NOT NULL CHECK (source IN ('customer', 'topups', 'meetings', 'notulen', 'adjustments')),
    destination     text NOT NULL CHECK (destination IN ('customer', 'topups', 'meetings', 'notulen', 'adjustments')),
    reference_type  text NOT NULL,
    reference_id    text NOT NULL,  -- no foreign key: several
    reverses        uuid,  -- no foreign key: ledger
    api_key_id      uuid,  -- no foreign key: caller
    cap_day         date,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, operation),
    CHECK (destination <> source AND 'customer' IN (source, destination))
);
CREATE UNIQUE INDEX ledger_transfers_reversed_once ON ledger_transfers (account_id, reverses) WHERE reverses IS NOT NULL;

CREATE TABLE ledger_entries (
    account_id     uuid NOT NULL,  -- no foreign key: ledger
    number         bigint NOT NULL CHECK (number >= 1),
    book           text NOT NULL CHECK (book IN ('customer', 'topups', 'meetings', 'notulen', 'adjustments')),
    transfer_id    uuid NOT NULL,  -- no foreign key: ledger
    amount         bigint NOT NULL CHECK (amount <> 0),
    balance_after  bigint,
    at             timestamptz NOT NULL,
    hash           bytea,
    chain_key      bytea,
    PRIMARY KEY (account_id, book, number),
    CHECK ((book = 'customer') = (balance_after IS NOT NULL AND hash IS NOT NULL)),
    CONSTRAINT ledger_entries_chain_key CHECK (chain_key IS NULL OR length(chain_key) = 4 AND book = 'customer')
);
-- The system's leg tells the kind of an entry: by its book, and a refund, of which there are few, by its sign.
CREATE INDEX ledger_entries_of_refunds ON ledger_entries (account_id, book, number)
    WHERE book = 'meetings' AND amount < 0 OR book = 'topups' AND amount > 0;
-- The entry of a transfer is found without reading the account's history, and there is one.
CREATE UNIQUE INDEX ledger_entries_by_transfer ON ledger_entries (account_id, transfer_id) WHERE book = 'customer';

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only: % on % is refused', TG_OP, TG_TABLE_NAME;
END $$;
CREATE TRIGGER ledger_transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transfers
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What was moved of an account on each day (WIB) by kind, as the customer's balance saw it, kept as entries are added. A
-- posting holds the account's lock, so that no two wait for a row of these.
CREATE TABLE ledger_day_totals (
    account_id  uuid NOT NULL REFERENCES accounts,
    day         date NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('topup', 'topup_refund', 'meeting_charge', 'meeting_refund', 'notulen_charge', 'adjustment')),
    credits     bigint NOT NULL,
    entries     bigint NOT NULL CHECK (entries >= 1),
    PRIMARY KEY (account_id, day, kind)
) WITH (fillfactor = 50);
CREATE INDEX ledger_day_totals_by_day ON ledger_day_totals (day);

CREATE FUNCTION count_day_totals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_day_totals AS total (account_id, day, kind, credits, entries)
    SELECT account_id, ((at AT TIME ZONE 'UTC') + interval '7 hours')::date,
        CASE book WHEN 'notulen' THEN 'notulen_charge' WHEN 'adjustments' THEN 'adjustment'
            WHEN 'topups' THEN CASE WHEN amount < 0 THEN 'topup' ELSE 'topup_refund' END
            ELSE CASE WHEN amount < 0 THEN 'meeting_refund' ELSE 'meeting_charge' END END,
        -sum(amount)::bigint, count(*)
    FROM added WHERE book <> 'customer' GROUP BY 1, 2, 3
    ON CONFLICT (account_id, day, kind) DO UPDATE
        SET credits = total.credits + EXCLUDED.credits, entries = total.entries + EXCLUDED.entries;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_entries_counted AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_day_totals();

-- The periodic verification of the ledger: one row, with how far the present run is (`after_account`) and what came of the
-- last one. `due_at` is when anyone may go on or begin; taking it pushes it past the lease.
CREATE TABLE ledger_verification (
    is_only        boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    started_at     timestamptz,
    after_account  uuid,  -- no foreign key: outlives
    accounts       bigint NOT NULL DEFAULT 0 CHECK (accounts >= 0),
    entries        bigint NOT NULL DEFAULT 0 CHECK (entries >= 0),
    findings       text[] NOT NULL DEFAULT '{}',
    due_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token    uuid,
    verified_at    timestamptz,
    is_sound       boolean NOT NULL DEFAULT true,
    CONSTRAINT ledger_verification_progress CHECK (started_at IS NOT NULL OR after_account IS NULL)
);
INSERT INTO ledger_verification DEFAULT VALUES;

-- Open holds for notes: a hold's row goes when it is settled or released. That of a meeting is a part of its row.
CREATE TABLE note_holds (
    account_id      uuid NOT NULL REFERENCES accounts,
    id              uuid NOT NULL,
    operation       text NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('topup', 'topup_refund', 'meeting_charge', 'meeting_refund', 'notulen_charge', 'adjustment')),
    amount          bigint NOT NULL CHECK (amount BETWEEN 1 AND 1000000000000000),
    reference_type  text NOT NULL,
    reference_id    text NOT NULL,  -- no foreign key: several
    api_key_id      uuid NOT NULL,  -- no foreign key: caller
    cap_day         date NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, operation)
);

CREATE TABLE cap_usage (
    account_id  uuid NOT NULL,  -- no foreign key: caller
    api_key_id  uuid NOT NULL,  -- no foreign key: caller
    day         date NOT NULL,
    spent       bigint NOT NULL CHECK (spent >= 0),
    held        bigint NOT NULL CHECK (held >= 0),
    PRIMARY KEY (account_id, api_key_id, day)
) WITH (fillfactor = 50);

-- `creations` were made for a host on `creations_on`, a day in UTC. Its key is sealed; while `key_due_at` is
-- set the key is an earlier meeting's and must be replaced, by the holder of `key_token` until then. The provider is the one
-- of the deployment, so that `provider_user_id` is unique by itself. The index has no column that a creation changes, but for
-- one in sixteen.
CREATE TABLE hosts (
    id                 uuid PRIMARY KEY,
    provider_user_id   text NOT NULL UNIQUE,  -- no foreign key: outside
    capacity           integer NOT NULL CHECK (capacity >= 1),
    max_concurrent     integer NOT NULL CHECK (max_concurrent BETWEEN 1 AND 100),
    uses               bigint NOT NULL DEFAULT 0,
    is_active          boolean NOT NULL DEFAULT true,
    created_at         timestamptz NOT NULL,
    creations          integer NOT NULL DEFAULT 0 CHECK (creations >= 0),
    creations_on       date,
    unavailable_until  timestamptz,
    host_key           bytea,
    key_token          uuid,
    key_due_at         timestamptz DEFAULT clock_timestamp(),
    use_rank           bigint NOT NULL GENERATED ALWAYS AS (uses / 16) STORED
) WITH (fillfactor = 50);
CREATE INDEX hosts_best_fit ON hosts (capacity, use_rank, id) WHERE is_active;
CREATE INDEX hosts_key_due ON hosts (key_due_at) WHERE key_due_at IS NOT NULL AND max_concurrent = 1;

-- How many meetings were made for an account on a day (UTC) on a host, where the provider limits them.
CREATE TABLE account_creations (
    account_id  uuid NOT NULL REFERENCES accounts,
    day         date NOT NULL,
    host_id     uuid NOT NULL REFERENCES hosts,
    creations   integer NOT NULL CHECK (creations >= 0),
    PRIMARY KEY (account_id, day, host_id)
) WITH (fillfactor = 50);
CREATE INDEX account_creations_days ON account_creations (day);

-- What changes stands last: an update writes what is behind the first change to the log.
-- `due_at`: when the clock sees to a meeting: to end it, to end what runs of it at its provider after that until nothing
-- does, since `cleared_at`, or to look for its recording, which it has done `recording_checks` times.
CREATE TABLE meetings (
    account_id           uuid NOT NULL REFERENCES accounts,
    id                   uuid NOT NULL,
    api_key_id           uuid NOT NULL,  -- no foreign key: caller
    title                text NOT NULL,
    description          text,
    start_at             timestamptz NOT NULL,
    end_at               timestamptz NOT NULL CHECK (end_at > start_at),
    duration             integer NOT NULL,
    capacity             integer,
    pricing_tier_id      text NOT NULL,  -- no foreign key: outside
    credits              bigint NOT NULL,
    recording_credits    bigint NOT NULL DEFAULT 0 CHECK (recording_credits >= 0),
    with_recording       boolean NOT NULL,
    auto_notulen         boolean NOT NULL,
    must_login           boolean NOT NULL,
    mic_off              boolean NOT NULL,
    email_notification   boolean NOT NULL,
    host_id              uuid REFERENCES hosts,
    provider             text NOT NULL,
    created_at           timestamptz NOT NULL,
    status               text NOT NULL CHECK (status IN (
        'provisioning', 'scheduled', 'cancelling', 'started', 'ended', 'cancelled', 'abandoned')),
    password             bytea,
    join_url             bytea,
    provider_meeting_id  text,  -- no foreign key: outside
    hold_id              uuid,  -- no foreign key: together
    charge_id            uuid,  -- no foreign key: together
    credits_refunded     bigint,
    idempotency_key      text,
    lease_token          uuid,
    lease_until          timestamptz,
    due_at               timestamptz,
    recording_checks     integer NOT NULL DEFAULT 0 CHECK (recording_checks >= 0),
    cleared_at           timestamptz,
    PRIMARY KEY (account_id, id),
    CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT meetings_held_while_made CHECK (hold_id IS NULL OR status = 'provisioning' AND lease_until IS NOT NULL)
) WITH (fillfactor = 70);
-- All open holds. Those of meetings are found by the index of what is in progress.
CREATE VIEW ledger_holds AS
SELECT account_id, id, operation, kind, amount, reference_type, reference_id, api_key_id, cap_day FROM note_holds
UNION ALL
SELECT account_id, hold_id, COALESCE('meeting:key:' || idempotency_key, 'meeting:' || id), 'meeting_charge', credits, 'meeting',
    id::text, api_key_id, ((created_at AT TIME ZONE 'UTC') + interval '7 hours')::date
FROM meetings WHERE hold_id IS NOT NULL AND lease_until IS NOT NULL;
-- A provider may give an id again when what had it is long over.
CREATE UNIQUE INDEX meetings_open_at_provider ON meetings (provider, provider_meeting_id)
    WHERE status IN ('scheduled', 'cancelling', 'started');
CREATE INDEX meetings_closed_at_provider ON meetings (provider, provider_meeting_id)
    WHERE status NOT IN ('scheduled', 'cancelling', 'started') AND provider_meeting_id IS NOT NULL;
CREATE INDEX meetings_in_progress ON meetings (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX meetings_due ON meetings (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX meetings_open ON meetings (account_id, id) WHERE status IN ('scheduled', 'cancelling', 'started');
CREATE INDEX meetings_cancelled ON meetings (account_id, id) WHERE status = 'cancelled';
CREATE INDEX meetings_by_id ON meetings (id) WHERE status <> 'provisioning';
CREATE INDEX meetings_in_time ON meetings (account_id, status, start_at) WHERE status NOT IN ('provisioning', 'abandoned');
-- The words of a meeting's title, each behind the end of its account's id: those of one account stand together in the index,
-- and a beginning of a word is a range in it. No extension is needed. The cost keeps the planner from working the words out
-- for a whole table; a short pending list keeps both a write that merges it and a search that reads it short.
CREATE FUNCTION title_words(account_id uuid, title text) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
BEGIN
    RETURN array_to_tsvector(array_remove(regexp_split_to_array(
        regexp_replace(lower(title), '[[:alnum:]]+', substr(account_id::text, 25) || '\&', 'g'),
        '[^[:alnum:]]+'), ''));
END $$;
CREATE INDEX meetings_by_title ON meetings USING gin (title_words(account_id, title)) WITH (gin_pending_list_limit = 256)
    WHERE status NOT IN ('provisioning', 'abandoned');

-- What was held at the provider under a meeting's number, as far as it was reported.
CREATE TABLE meeting_sessions (
    account_id           uuid NOT NULL,
    meeting_id           uuid NOT NULL,
    provider_session_id  text NOT NULL,  -- no foreign key: outside
    started_at           timestamptz,
    ended_at             timestamptz,
    PRIMARY KEY (account_id, meeting_id, provider_session_id),
    FOREIGN KEY (account_id, meeting_id) REFERENCES meetings ON DELETE CASCADE,
    CHECK (started_at IS NOT NULL OR ended_at IS NOT NULL)
);

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
CREATE INDEX orphan_checks_failed ON orphan_checks (due_at) WHERE failures > 0;

-- One row for each meeting that occupies a host; two that overlap on one slot cannot exist.
CREATE TABLE host_reservations (
    account_id  uuid NOT NULL,  -- no foreign key: together
    meeting_id  uuid NOT NULL,  -- no foreign key: together
    host_id     uuid NOT NULL REFERENCES hosts,
    slot        integer NOT NULL CHECK (slot >= 0),
    during      tstzrange NOT NULL CHECK (NOT isempty(during)),
    PRIMARY KEY (account_id, meeting_id),
    CONSTRAINT host_reservations_no_overlap EXCLUDE USING gist (host_id WITH =, slot WITH =, during WITH &&)
);
CREATE INDEX host_reservations_ends ON host_reservations (upper(during));
CREATE INDEX host_reservations_starts ON host_reservations (host_id, slot, lower(during));
CREATE INDEX host_reservations_lengths ON host_reservations ((upper(during) - lower(during)))
    WHERE upper(during) - lower(during) > interval '1 day';

-- Destination hosts of webhooks. A claim locks the hosts that it takes deliveries for, so that posts to one host are
-- bounded over all workers; `claimed_at` has an instant for each delivery that was taken in the last second. A row goes with
-- the last endpoint at its host.
CREATE TABLE webhook_hosts (
    host        text PRIMARY KEY,
    claimed_at  timestamptz[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- Failed deliveries in a row at a host, over all endpoints of an account there, and the time of the first. A transaction that records attempts locks
-- it before the endpoints.
CREATE TABLE webhook_account_hosts (
    account_id            uuid NOT NULL REFERENCES accounts,
    host                  text NOT NULL REFERENCES webhook_hosts,
    consecutive_failures  integer NOT NULL DEFAULT 0 CHECK (consecutive_failures >= 0),
    failing_since         timestamptz CHECK ((failing_since IS NULL) = (consecutive_failures = 0)),
    PRIMARY KEY (account_id, host)
) WITH (fillfactor = 70);
CREATE INDEX webhook_account_hosts_of_host ON webhook_account_hosts (host);

-- `released_until`: what was held and is released by now is due one by one until then; no more before.
-- `previous_secret` is the one before the last rotation, sealed as `secret` is: it signs, too, until its end.
-- `next_post_at` is set while posts fail: what is due before is throttled until then.
CREATE TABLE webhook_endpoints (
    account_id            uuid NOT NULL REFERENCES accounts,
    id                    uuid NOT NULL,
    url                   text NOT NULL,
    url_key               text NOT NULL,
    description           text,
    event_types           text[] NOT NULL CHECK (event_types <@ ARRAY[
        'note.completed', 'note.failed', 'meeting.created', 'meeting.ended', 'recording.ready', 'credit.low',
        'credit.topup.succeeded', 'webhook.test']),
    state                 text NOT NULL CHECK (state IN ('active', 'paused', 'disabled')),
    consecutive_failures  integer NOT NULL CHECK (consecutive_failures >= 0),
    disabled_at           timestamptz,
    created_by            text NOT NULL,
    created_at            timestamptz NOT NULL,
    secret                bytea NOT NULL,
    released_until        timestamptz,
    host                  text NOT NULL GENERATED ALWAYS AS (split_part(url_key, '/', 3)) STORED,
    previous_secret       bytea,
    previous_secret_until timestamptz,
    next_post_at          timestamptz,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, url_key),
    FOREIGN KEY (account_id, host) REFERENCES webhook_account_hosts,
    CONSTRAINT webhook_endpoints_previous_secret_check CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL))
);
CREATE INDEX webhook_endpoints_inactive ON webhook_endpoints (state) WHERE state <> 'active';
CREATE INDEX webhook_endpoints_at_host ON webhook_endpoints (account_id, host);
CREATE INDEX webhook_endpoints_previous_secrets ON webhook_endpoints (previous_secret_until)
    WHERE previous_secret_until IS NOT NULL;

-- The outbox: events with the sealed bytes that every attempt sends, and one delivery for each
-- endpoint. `due_at` is when anyone may take a delivery next; taking one pushes it past the lease.
-- A delivery that waits behind the posts in flight at its endpoint is throttled, so that it delays no other, until one of
-- those posts is recorded. `lease_host` is the host that a claimed delivery is posted to. `subject_id` names the meeting or
-- the note that an event is about; erasing a note deletes its events. `failed_at` is when a delivery failed or expired,
-- `attempts_before_recovery` how many attempts were made before it was recovered. The attempt that succeeded is a part of its
-- delivery; those that failed have rows of their own.
--
-- All three are partitioned by ids that begin with a time: an event's own, a delivery's own, and for an attempt that of its
-- delivery, so that it lies beside it. The primary keys hold the partition's key, and nothing else is unique. The periodic task
-- `partitions` ends the last partition, makes those that follow, and drops those that are past their retention: first of
-- events, then of deliveries where none is unfinished, then of attempts. There is always one that is open at its end, so
-- that no id is without a partition; none is a DEFAULT one, beside which PostgreSQL reads partitions in no order. There is
-- no foreign key between them: PostgreSQL refuses to drop a partition while rows of another table refer to it.
CREATE TABLE events (
    account_id  uuid NOT NULL,  -- no foreign key: caller
    id          uuid NOT NULL,
    kind        text NOT NULL CHECK (kind IN (
        'note.completed', 'note.failed', 'meeting.created', 'meeting.ended', 'recording.ready', 'credit.low',
        'credit.topup.succeeded', 'webhook.test')),
    payload     bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    subject_id  uuid,  -- no foreign key: together
    cause       text,
    PRIMARY KEY (account_id, id)
) PARTITION BY RANGE (id);
CREATE TABLE events_first PARTITION OF events FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
CREATE INDEX events_of_kind ON events (account_id, kind, id) WHERE kind <> 'meeting.created';
CREATE INDEX events_age ON events USING brin (created_at) WITH (autosummarize = on);
CREATE INDEX events_of_subject ON events (account_id, subject_id) WHERE subject_id IS NOT NULL;

CREATE TABLE deliveries (
    account_id     uuid NOT NULL,  -- no foreign key: caller
    id             uuid NOT NULL,
    endpoint_id    uuid NOT NULL,  -- no foreign key: outlives
    event_id       uuid NOT NULL,  -- no foreign key: outlives
    event_kind     text NOT NULL CHECK (event_kind IN (
        'note.completed', 'note.failed', 'meeting.created', 'meeting.ended', 'recording.ready', 'credit.low',
        'credit.topup.succeeded', 'webhook.test')),
    created_at     timestamptz NOT NULL,
    status         text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed', 'held', 'expired')),
    attempts_made  integer NOT NULL DEFAULT 0,
    due_at         timestamptz,
    held_at        timestamptz,
    lease_token    uuid,
    is_throttled   boolean NOT NULL DEFAULT false,
    lease_host     text,
    failed_at      timestamptz,
    attempts_before_recovery integer NOT NULL DEFAULT 0,
    success_at               timestamptz,
    success_duration_ms      integer,
    success_status_code      integer,
    success_response_excerpt text,
    success_address          text,
    PRIMARY KEY (account_id, endpoint_id, id),
    CHECK ((status = 'pending') = (due_at IS NOT NULL)),
    CHECK ((status = 'held') = (held_at IS NOT NULL)),
    CONSTRAINT deliveries_throttled_waits CHECK (NOT is_throttled OR status = 'pending' AND lease_token IS NULL)
) PARTITION BY RANGE (id);
CREATE TABLE deliveries_first PARTITION OF deliveries FOR VALUES FROM (MINVALUE) TO (MAXVALUE) WITH (fillfactor = 80);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE due_at IS NOT NULL AND NOT is_throttled;
CREATE INDEX deliveries_throttled ON deliveries (account_id, endpoint_id, due_at) WHERE is_throttled;
CREATE INDEX deliveries_in_flight ON deliveries (account_id, endpoint_id) WHERE lease_token IS NOT NULL;
CREATE INDEX deliveries_held ON deliveries (account_id, endpoint_id, id) WHERE status = 'held';
CREATE INDEX deliveries_open ON deliveries (account_id, endpoint_id, id) WHERE status <> 'succeeded';
CREATE INDEX deliveries_held_at ON deliveries (held_at) WHERE status = 'held';
CREATE INDEX deliveries_failed ON deliveries (account_id, endpoint_id, failed_at) WHERE failed_at IS NOT NULL;
CREATE INDEX deliveries_of_notes ON deliveries (account_id, event_id)
    WHERE event_kind IN ('note.completed', 'note.failed');

CREATE TABLE delivery_attempts (
    account_id        uuid NOT NULL,  -- no foreign key: together
    delivery_id       uuid NOT NULL,  -- no foreign key: together
    number            integer NOT NULL,
    at                timestamptz NOT NULL,
    duration_ms       integer NOT NULL,
    status_code       integer,
    error             text,
    response_excerpt  text,
    address           text,
    request_headers   text,
    response_headers  text,
    PRIMARY KEY (account_id, delivery_id, number)
) PARTITION BY RANGE (delivery_id);
CREATE TABLE delivery_attempts_first PARTITION OF delivery_attempts FOR VALUES FROM (MINVALUE) TO (MAXVALUE);

CREATE TABLE idempotency_keys (
    account_id   uuid NOT NULL,  -- no foreign key: caller
    key          text NOT NULL,
    fingerprint  bytea NOT NULL,
    is_done      boolean NOT NULL,
    subject_id   uuid,  -- no foreign key: several
    lease_until  timestamptz,
    answer       bytea,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- What became of the requests of seven days: some of those of a busy minute, written after they were answered. `path` is
-- that of the operation. Neither bodies nor queries are kept; of the details of a refusal the names
-- and the texts of the rules that fields break.
CREATE TABLE api_requests (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL,  -- no foreign key: caller
    api_key_id   uuid NOT NULL,  -- no foreign key: caller
    at           timestamptz NOT NULL,
    method       text NOT NULL,
    path         text NOT NULL,
    status       smallint NOT NULL CHECK (status BETWEEN 100 AND 599),
    duration_ms  integer NOT NULL CHECK (duration_ms >= 0),
    code         text,
    subject_id   uuid,  -- no foreign key: several
    client_address text,
    message      text,
    details      text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX api_requests_of_account ON api_requests (account_id, id);
CREATE INDEX api_requests_of_key ON api_requests (account_id, api_key_id, id);
CREATE INDEX api_requests_refused ON api_requests (account_id, (status / 100), id) WHERE status >= 400;
CREATE INDEX api_requests_of_path ON api_requests (account_id, path, id);
CREATE INDEX api_requests_of_code ON api_requests (account_id, code, id) WHERE code IS NOT NULL;

-- The inbox: events of providers that are not applied yet. They belong to no account: the meeting that one is about is only
-- found when it is applied. `due_at` is when anyone may take an event next; it is null once an event is done,
-- and then only the digest is left, by which a double is known.
CREATE TABLE provider_events (
    id           uuid PRIMARY KEY,
    provider     text NOT NULL,
    digest       bytea NOT NULL CHECK (length(digest) = 32),
    kind         text NOT NULL CHECK (kind IN ('meeting_started', 'meeting_ended', 'meeting_closed', 'recording_ready')),
    payload      bytea,
    received_at  timestamptz NOT NULL,
    tries        integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    due_at       timestamptz,
    lease_token  uuid,
    UNIQUE (provider, digest),
    CHECK ((payload IS NULL) = (due_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX provider_events_due ON provider_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX provider_events_done ON provider_events (received_at) WHERE due_at IS NULL;

-- At most one recording for each meeting. Its files are one sealed document: their addresses are secrets, every
-- decision needs all of them, and none is read alone. `due_at` is when anyone may go to the provider for it
-- next, to measure its media or to remove its files; taking one pushes it past the lease.
CREATE TABLE recordings (
    account_id           uuid NOT NULL REFERENCES accounts,
    id                   uuid NOT NULL,
    meeting_id           uuid NOT NULL,  -- no foreign key: together
    status               text NOT NULL CHECK (status IN ('measuring', 'available', 'expired')),
    files                bytea NOT NULL,
    recorded_at          timestamptz NOT NULL,
    created_at           timestamptz NOT NULL,
    provider             text NOT NULL,
    provider_meeting_id  text NOT NULL,  -- no foreign key: outside
    expires_at           timestamptz NOT NULL,
    due_at               timestamptz,
    lease_token          uuid,
    tries                integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    misses               integer NOT NULL DEFAULT 0 CHECK (misses >= 0),
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, meeting_id)
);
CREATE INDEX recordings_due ON recordings (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX recordings_outlived ON recordings (expires_at) WHERE status <> 'expired';

-- Notes made of recordings. Draft and transcript are one sealed document. A note in progress is always due: now, later, or
-- when the lease of the worker on it runs out, which has happened `lease_expirations` times since the note came on last.
-- Credits are held for it.
CREATE TABLE notes (
    account_id         uuid NOT NULL REFERENCES accounts,
    id                 uuid NOT NULL,
    api_key_id         uuid NOT NULL,  -- no foreign key: caller
    recording_id       uuid,
    meeting_id         uuid NOT NULL,  -- no foreign key: together
    language           text NOT NULL CHECK (language IN ('id', 'en')),
    status             text NOT NULL CHECK (status IN ('queued', 'processing', 'completed', 'failed', 'erased')),
    step               text NOT NULL CHECK (step IN ('fetch', 'transcribe', 'write', 'settle')),
    duration_s         integer NOT NULL CHECK (duration_s >= 0),
    created_at         timestamptz NOT NULL,
    tries              integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    content            bytea,
    written_by         text,
    edited_at          timestamptz,
    credits_charged    bigint,
    charge_id          uuid,  -- no foreign key: together
    error              text,
    completed_at       timestamptz,
    hold_id            uuid,  -- no foreign key: together
    due_at             timestamptz,
    lease_token        uuid,
    lease_expirations  integer NOT NULL DEFAULT 0 CHECK (lease_expirations >= 0),
    cause              text,
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (account_id, recording_id) REFERENCES recordings,
    CONSTRAINT notes_in_progress_are_due CHECK ((status IN ('queued', 'processing')) = (due_at IS NOT NULL)),
    CONSTRAINT notes_in_progress_are_paid_for CHECK ((status IN ('queued', 'processing')) = (hold_id IS NOT NULL))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX notes_one_at_a_time ON notes (account_id, recording_id, language)
    WHERE status IN ('queued', 'processing', 'completed');
CREATE INDEX notes_of_recording ON notes (account_id, recording_id);
CREATE INDEX notes_of_meeting ON notes (account_id, meeting_id);
CREATE INDEX notes_due ON notes (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX notes_by_id ON notes (id);

-- The transcripts of a recording's chunks, sealed: after a crash only the missing ones are transcribed.
CREATE TABLE transcript_chunks (
    account_id    uuid NOT NULL,
    recording_id  uuid NOT NULL,
    source        text NOT NULL,
    number        integer NOT NULL CHECK (number >= 0),
    transcript    bytea NOT NULL,
    PRIMARY KEY (account_id, recording_id, source, number),
    FOREIGN KEY (account_id, recording_id) REFERENCES recordings
);

-- The outbox of mails, and what became of those of 30 days. Some are about no account. The content is sealed: it can hold
-- a one-time link. `due_at` is when anyone may take a mail next; taking one pushes it past the lease. A mail that is
-- sent or given up has no content any more.
CREATE TABLE mails (
    id             uuid PRIMARY KEY,
    account_id     uuid REFERENCES accounts,
    recipient      text NOT NULL,
    kind           text NOT NULL
        CHECK (kind IN (
            'sign_in_link', 'invitation', 'endpoint_disabled', 'low_credits', 'passkey_changed', 'statement_ready',
            'payment_received', 'payment_ended', 'payment_refunded', 'suspension_changed'
        )),
    language       text NOT NULL CHECK (language IN ('id', 'en')),
    content        bytea,
    created_at     timestamptz NOT NULL,
    due_at         timestamptz,
    lease_token    uuid,
    attempts_made  integer NOT NULL CHECK (attempts_made >= 0),
    sent_at        timestamptz,
    failed_at      timestamptz,
    last_error     text,
    counted_as     text NOT NULL DEFAULT '',
    CONSTRAINT mails_due_sent_or_failed CHECK (num_nonnulls(due_at, sent_at, failed_at) = 1),
    CONSTRAINT mails_erased_when_over CHECK ((content IS NULL) = (due_at IS NULL)),
    CONSTRAINT mails_claimed_are_due CHECK (lease_token IS NULL OR due_at IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX mails_due ON mails (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX mails_over ON mails (created_at) WHERE due_at IS NULL;
CREATE INDEX mails_of_account ON mails (account_id, created_at);
CREATE INDEX mails_to_recipient ON mails (lower(recipient), created_at);

-- Accounts that are erased: what was interrupted is finished by the workers.
CREATE TABLE account_erasures (
    account_id    uuid PRIMARY KEY REFERENCES accounts,
    requested_at  timestamptz NOT NULL,
    finished_at   timestamptz,
    due_at        timestamptz,
    CONSTRAINT account_erasures_in_order CHECK (finished_at >= requested_at)
);
CREATE INDEX account_erasures_pending ON account_erasures (requested_at) WHERE finished_at IS NULL;

-- Meetings, recordings and notes that were removed past their retention: ids that answer 410.
CREATE TABLE removed_records (
    account_id  uuid NOT NULL,  -- no foreign key: outlives
    id          uuid NOT NULL,
    removed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account_id, id)
);

-- How far the removal of each kind is: the round goes on behind `after_id`, since `started_at`, and who has the row locked
-- has the turn. `due_at` is when the next round begins.
CREATE TABLE retention_progress (
    kind        text PRIMARY KEY CHECK (kind IN ('notes', 'meetings')),
    after_id    uuid,  -- no foreign key: outlives
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at  timestamptz
);
INSERT INTO retention_progress (kind) VALUES ('notes'), ('meetings');

-- Counters of the present minute. Unlogged: a crash of the database forgets them, which errs on
-- the customer's side for at most one minute.
CREATE UNLOGGED TABLE rate_counters (
    window_start  bigint NOT NULL,
    api_key_id    uuid NOT NULL,  -- no foreign key: caller
    class         text NOT NULL CHECK (class IN ('read', 'write', 'credit', 'tool')),
    hits          bigint NOT NULL CHECK (hits > 0),
    PRIMARY KEY (window_start, api_key_id, class)
) WITH (fillfactor = 50);

-- Payments for credits. Money is in whole rupiah, or in the minor unit of another currency; `price` is without tax.
-- `next_look_at` is when the gateway is asked next. A payment outlives the erasure of its account, as its entries do.
CREATE TABLE payments (
    id               uuid PRIMARY KEY,
    account_id       uuid NOT NULL REFERENCES accounts,
    gateway          text NOT NULL,
    credits          bigint NOT NULL CHECK (credits > 0),
    price            bigint NOT NULL CHECK (price > 0),
    tax              bigint NOT NULL CHECK (tax >= 0),
    currency         text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    package_id       text,  -- no foreign key: outside
    api_key_id       uuid,  -- no foreign key: outlives
    status           text NOT NULL CHECK (status IN ('pending', 'paid', 'failed', 'expired', 'refunded')),
    reference        text,
    payment_url      text,
    method           text NOT NULL,
    transaction_id   text,  -- no foreign key: outside
    ended_at         timestamptz,
    next_look_at     timestamptz,
    looks            integer NOT NULL CHECK (looks >= 0),
    doubt            text CHECK (doubt IN (
        'wrong_amount', 'wrong_currency', 'paid_after_end', 'account_erased', 'reversed', 'refund_refused', 'refund_failed', 'disputed',
        'unanswered')),
    doubt_closed_at  timestamptz,
    CONSTRAINT payments_ended CHECK ((status = 'pending') = (ended_at IS NULL)),
    CONSTRAINT payments_closed_doubts CHECK (doubt IS NOT NULL OR doubt_closed_at IS NULL)
);
CREATE INDEX payments_of_account ON payments (account_id, id);
CREATE INDEX payments_pending ON payments (account_id) WHERE status = 'pending';
CREATE INDEX payments_due ON payments (next_look_at) WHERE next_look_at IS NOT NULL;
CREATE INDEX payments_of_references ON payments (reference) WHERE reference IS NOT NULL;
CREATE INDEX payments_of_transactions ON payments (transaction_id) WHERE transaction_id IS NOT NULL;
CREATE INDEX payments_in_doubt ON payments (id) WHERE doubt IS NOT NULL AND doubt_closed_at IS NULL;

-- The last answers and notifications of the gateway on a payment, for operators.
CREATE TABLE payment_messages (
    payment_id  uuid NOT NULL REFERENCES payments,
    number      integer NOT NULL CHECK (number > 0),
    at          timestamptz NOT NULL,
    source      text NOT NULL CHECK (source IN ('checkout', 'notification', 'look', 'refund')),
    body        text NOT NULL CHECK (length(body) <= 10000),
    PRIMARY KEY (payment_id, number)
);

CREATE TABLE payment_refunds (
    payment_id    uuid PRIMARY KEY REFERENCES payments,
    account_id    uuid NOT NULL REFERENCES accounts,
    credits       bigint NOT NULL CHECK (credits > 0),
    amount        bigint NOT NULL CHECK (amount >= 0),
    reason        text NOT NULL,
    created_at    timestamptz NOT NULL,
    paid_back_at  timestamptz,
    refused_at    timestamptz,
    failed_at     timestamptz
);

-- Whom receipts and statements are made out to; without a row, to the account's name.
CREATE TABLE billing_details (
    account_id  uuid PRIMARY KEY REFERENCES accounts,
    name        text NOT NULL,
    address     text NOT NULL,
    tax_number  text NOT NULL
);

-- The last number of the receipts of a year. Its row is locked from the number's use to the commit: there are no gaps.
CREATE TABLE receipt_years (
    year         integer PRIMARY KEY,
    last_number  integer NOT NULL CHECK (last_number > 0)
);

CREATE TABLE receipts (
    payment_id         uuid PRIMARY KEY REFERENCES payments,
    account_id         uuid NOT NULL REFERENCES accounts,
    year               integer NOT NULL REFERENCES receipt_years,
    number             integer NOT NULL CHECK (number > 0),
    issued_at          timestamptz NOT NULL,
    seller_name        text NOT NULL,
    seller_address     text NOT NULL,
    seller_tax_number  text NOT NULL,
    buyer_name         text NOT NULL,
    buyer_address      text NOT NULL,
    buyer_tax_number   text NOT NULL,
    UNIQUE (year, number)
);

-- What the sandbox provider remembers: only meetings that were started, ended or removed.
CREATE TABLE sandbox_meetings (
    provider_meeting_id  text PRIMARY KEY,  -- no foreign key: outside
    state                text NOT NULL CHECK (state IN ('started', 'left', 'ended', 'removed')),
    changed_at           timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The sessions of sandbox meetings, numbered from 1 in each.
CREATE TABLE sandbox_sessions (
    provider_meeting_id  text NOT NULL,  -- no foreign key: outside
    number               integer NOT NULL CHECK (number > 0),
    started_at           timestamptz NOT NULL,
    ended_at             timestamptz,
    PRIMARY KEY (provider_meeting_id, number)
);

-- The keys that the sandbox's hosts have. In the clear: this stands for the third party's memory, not for ours.
CREATE TABLE sandbox_host_keys (
    provider_user_id  text PRIMARY KEY,  -- no foreign key: outside
    host_key          text NOT NULL,
    changed_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was removed of the recordings of sandbox meetings; every session that is over has the same files.
CREATE TABLE sandbox_removed_files (
    provider_meeting_id  text NOT NULL,  -- no foreign key: outside
    provider_file_id     text NOT NULL,  -- no foreign key: outside
    removed_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider_meeting_id, provider_file_id)
);

-- What the sandbox gateway remembers of payments: `paid_amount` and `paid_currency` are what was paid.
CREATE TABLE sandbox_payments (
    payment_id     uuid PRIMARY KEY,  -- no foreign key: outside
    amount         bigint NOT NULL,
    currency       text NOT NULL,
    description    text NOT NULL,
    return_url     text NOT NULL,
    expires_at     timestamptz NOT NULL,
    status         text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'paid', 'failed', 'expired', 'reversed')),
    paid_amount    bigint,
    paid_currency  text,
    refunded       bigint NOT NULL DEFAULT 0
);
