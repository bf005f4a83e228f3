-- Passkeys of users and of operators, the challenges that they answer, and mails about them.
-- Each is a user's or an operator's. `public_key` is a COSE key; the private one is on the owner's device.
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

ALTER TABLE mails DROP CONSTRAINT mails_kind_check;
ALTER TABLE mails ADD CONSTRAINT mails_kind_check
    CHECK (kind IN ('sign_in_link', 'invitation', 'endpoint_disabled', 'low_credits', 'passkey_changed')) NOT VALID;
