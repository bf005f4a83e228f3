-- find_client: Read a client by its id.
SELECT {CLIENT.select} FROM oauth_clients c WHERE c.id = %(client_id)s

-- save_client: Write a client; one whose document was fetched again keeps its first time.
INSERT INTO oauth_clients ({CLIENT.names}) VALUES ({CLIENT.values})
ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, redirect_uris = EXCLUDED.redirect_uris,
    fetched_at = EXCLUDED.fetched_at

-- add_authorization: Write a request for a grant.
INSERT INTO oauth_authorizations ({AUTHORIZATION.names}) VALUES ({AUTHORIZATION.values})

-- find_authorization: Read a request for a grant.
SELECT {AUTHORIZATION.select} FROM oauth_authorizations o WHERE o.id = %(id)s

-- load_authorization: The same, locked.
SELECT {AUTHORIZATION.select} FROM oauth_authorizations o WHERE o.id = %(id)s FOR UPDATE

-- allow: Write the answer to a request, with the digest of its code.
WITH used AS (
    UPDATE oauth_clients SET used_at = %(at)s WHERE id = %(authorization_client_id)s
)
UPDATE oauth_authorizations SET key_id = %(authorization_key_id)s, key_expires_at = %(authorization_key_expires_at)s,
    expires_at = %(authorization_expires_at)s, digest = %(digest)s
WHERE id = %(authorization_id)s

-- delete_authorization: Delete a request that was refused.
DELETE FROM oauth_authorizations WHERE id = %(id)s

-- find_code: Read an allowed request by the digest of its code.
SELECT {AUTHORIZATION.select} FROM oauth_authorizations o WHERE o.digest = %(digest)s

-- use_code: Use a code, unless it was used.
UPDATE oauth_authorizations SET used_at = %(at)s WHERE id = %(id)s AND used_at IS NULL

-- find_refresh_token: Read a refresh token by its digest.
SELECT t.key_id, k.client_id, t.used_at FROM oauth_refresh_tokens t JOIN api_keys k ON k.id = t.key_id
WHERE t.digest = %(digest)s

-- use_refresh_token: Use a refresh token, unless it was used.
UPDATE oauth_refresh_tokens SET used_at = %(at)s WHERE digest = %(digest)s AND used_at IS NULL

-- issue: Put new tokens in the place of those of a grant.
WITH issued AS (
    INSERT INTO oauth_refresh_tokens (digest, key_id, created_at) VALUES (%(refresh_digest)s, %(key_id)s, %(at)s)
)
UPDATE api_keys SET digest = %(digest)s, token_expires_at = %(key_token_expires_at)s, expires_at = %(key_expires_at)s
WHERE id = %(key_id)s

-- revoke_of_member: Revoke the grants that a member gave in an account, which is locked.
UPDATE api_keys k SET revoked_at = %(at)s
WHERE k.account_id = %(account_id)s AND k.created_by = %(user_id)s AND k.client_id IS NOT NULL
    AND k.revoked_at IS NULL
RETURNING {API_KEY.select}

-- purge: Delete a portion of the requests, tokens and clients that are past their time.
WITH old_authorizations AS (
    DELETE FROM oauth_authorizations WHERE ctid IN (
        SELECT ctid FROM oauth_authorizations WHERE expires_at < %(answered_before)s ORDER BY expires_at LIMIT 1000)
    RETURNING 1
), old_tokens AS (
    DELETE FROM oauth_refresh_tokens WHERE ctid IN (
        SELECT ctid FROM oauth_refresh_tokens WHERE used_at < %(used_before)s ORDER BY used_at LIMIT 1000)
    RETURNING 1
), old_clients AS (
    DELETE FROM oauth_clients WHERE ctid IN (
        SELECT c.ctid FROM oauth_clients c WHERE c.created_at < %(made_before)s
            AND (c.used_at IS NULL OR c.used_at < %(clients_before)s)
            AND NOT EXISTS (SELECT FROM api_keys k WHERE k.client_id = c.id AND k.revoked_at IS NULL
                AND (k.expires_at IS NULL OR k.expires_at > %(now)s))
        ORDER BY c.created_at LIMIT 1000)
    RETURNING 1
)
SELECT (SELECT count(*) FROM old_authorizations) + (SELECT count(*) FROM old_tokens)
    + (SELECT count(*) FROM old_clients) AS due
