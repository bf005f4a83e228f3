-- Members of accounts and operators, how they sign in, and their sessions. The user of each account becomes its first
-- member, an owner; accounts that share an e-mail address get one user, that of the oldest of them.
-- Users, known by an e-mail address without regard to case.
CREATE TABLE users (
    id          uuid PRIMARY KEY,
    email       text NOT NULL,
    full_name   text NOT NULL,
    created_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX users_by_email ON users (lower(email));

-- Who belongs to which account, changed under the account's lock: an account keeps an owner.
CREATE TABLE memberships (
    account_id  uuid NOT NULL REFERENCES accounts,
    user_id     uuid NOT NULL REFERENCES users,
    role        text NOT NULL CHECK (role IN ('owner', 'developer', 'finance', 'viewer')),
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, user_id)
);
CREATE INDEX memberships_of_user ON memberships (user_id);

-- At most one invitation for an address is pending in an account.
CREATE TABLE invitations (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES accounts,
    email        text NOT NULL,
    role         text NOT NULL CHECK (role IN ('owner', 'developer', 'finance', 'viewer')),
    invited_by   uuid,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    accepted_at  timestamptz,
    revoked_at   timestamptz
);
CREATE UNIQUE INDEX invitations_pending ON invitations (account_id, lower(email))
    WHERE accepted_at IS NULL AND revoked_at IS NULL;

-- Operators of the console. One who was removed keeps the record.
CREATE TABLE operators (
    id          uuid PRIMARY KEY,
    email       text NOT NULL,
    role        text NOT NULL CHECK (role IN ('support', 'finance', 'admin')),
    created_at  timestamptz NOT NULL,
    removed_at  timestamptz
);
CREATE UNIQUE INDEX operators_by_email ON operators (lower(email)) WHERE removed_at IS NULL;

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
    CONSTRAINT sign_in_links_of_operators CHECK ((purpose = 'operator') = (operator_id IS NOT NULL)),
    CONSTRAINT sign_in_links_of_one CHECK (num_nonnulls(user_id, guest_role, invitation_id, operator_id) = 1)
);
CREATE INDEX sign_in_links_expiry ON sign_in_links (expires_at);

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
    CONSTRAINT sessions_of_one CHECK (num_nonnulls(user_id, guest_role) = 1)
) WITH (fillfactor = 70);
CREATE INDEX sessions_of_user ON sessions (user_id, id) WHERE ended_at IS NULL;
CREATE INDEX sessions_last_seen ON sessions (last_seen_at);

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

INSERT INTO users (id, email, full_name, created_at)
SELECT CASE WHEN row_number() OVER (PARTITION BY user_id ORDER BY id) = 1 THEN user_id ELSE gen_random_uuid() END,
    email, full_name, created_at
FROM (SELECT DISTINCT ON (lower(email)) * FROM accounts ORDER BY lower(email), created_at, id) AS oldest;

INSERT INTO memberships (account_id, user_id, role, created_at)
SELECT a.id, u.id, 'owner', a.created_at FROM accounts a JOIN users u ON lower(u.email) = lower(a.email);
