-- add_email_link: Write a link for the user of an address who is a member anywhere: the same statement where there
-- is none.
WITH known AS (
    SELECT u.* FROM users u WHERE lower(u.email) = lower(%(email)s)
        AND EXISTS (SELECT FROM memberships b WHERE b.user_id = u.id)
), link AS (
    INSERT INTO sign_in_links (id, purpose, created_at, expires_at, browser_digest, digest, user_id)
    SELECT %(link_id)s, %(link_purpose)s, %(link_created_at)s, %(link_expires_at)s, %(link_browser_digest)s,
        %(digest)s, known.id FROM known
)
SELECT {USER.select} FROM known u

-- add_operator_link: Write a link for the operator of an address: the same statement where there is none.
WITH known AS (
    SELECT o.* FROM operators o WHERE lower(o.email) = lower(%(email)s) AND o.removed_at IS NULL
), link AS (
    INSERT INTO sign_in_links (id, purpose, created_at, expires_at, browser_digest, digest, operator_id)
    SELECT %(link_id)s, %(link_purpose)s, %(link_created_at)s, %(link_expires_at)s, %(link_browser_digest)s,
        %(digest)s, known.id FROM known
)
SELECT {OPERATOR.select} FROM known o

-- add_link: Write a link.
INSERT INTO sign_in_links ({LINK.names}, digest) VALUES ({LINK.values}, %(digest)s)

-- use_link: Use a link up: of several at once one finds it unused.
UPDATE sign_in_links l SET used_at = %(at)s
WHERE l.digest = %(digest)s AND l.used_at IS NULL AND l.expires_at > %(at)s
    AND (l.browser_digest IS NULL OR l.browser_digest = %(browser_digest)s)
    AND (l.purpose = 'operator') = %(is_operators)s
RETURNING {LINK.select}

-- find_invitation: What a link invites to that can be used.
SELECT a.full_name AS account_name, i.role, u.full_name AS member_name, u.email AS member_email
FROM sign_in_links l
JOIN invitations i ON i.id = l.invitation_id
JOIN accounts a ON a.id = i.account_id
LEFT JOIN users u ON u.id = i.invited_by
WHERE l.digest = %(digest)s AND l.used_at IS NULL AND l.expires_at > %(at)s AND i.accepted_at IS NULL
    AND i.revoked_at IS NULL AND i.expires_at > %(at)s

-- bind_identity: Write who a user or an operator is at an issuer, unless that is known.
INSERT INTO identities (user_id, operator_id, issuer, subject, bound_at)
VALUES (%(user_id)s, %(operator_id)s, %(issuer)s, %(subject)s, %(at)s) ON CONFLICT DO NOTHING

-- find_identity: Who a user or an operator is at an issuer.
SELECT subject FROM identities
WHERE issuer = %(issuer)s AND (user_id = %(user_id)s OR operator_id = %(operator_id)s)

-- forget_identities: Delete who a user or an operator is at every issuer.
DELETE FROM identities WHERE user_id = %(user_id)s OR operator_id = %(operator_id)s

-- find_link: A link, whether it can be used or not.
SELECT {LINK.select} FROM sign_in_links l WHERE l.digest = %(digest)s AND (l.purpose = 'operator') = %(is_operators)s

-- find_member: The user of an address who is a member anywhere.
SELECT {USER.select} FROM users u
WHERE lower(u.email) = lower(%(email)s) AND EXISTS (SELECT FROM memberships b WHERE b.user_id = u.id)

-- find_operator_for_link: The operator of an address.
SELECT {OPERATOR.select} FROM operators o WHERE lower(o.email) = lower(%(email)s) AND o.removed_at IS NULL

-- add_sign_up: Write a request for an account, where asked only for the address of a member anywhere: the same
-- statement for any address.
INSERT INTO sign_ups ({SIGN_UP.names}, digest) SELECT {SIGN_UP.values}, %(digest)s
WHERE NOT %(only_members)s OR EXISTS (SELECT FROM users u JOIN memberships b ON b.user_id = u.id
    WHERE lower(u.email) = lower(%(sign_up_email)s))

-- use_sign_up: Use a request up: of several at once one finds it.
DELETE FROM sign_ups s
WHERE s.digest = %(digest)s AND s.browser_digest = %(browser_digest)s AND s.expires_at > %(at)s
RETURNING {SIGN_UP.select}

-- add_session: Begin a customer's session.
INSERT INTO sessions ({SESSION.names}, digest) VALUES ({SESSION.values}, %(digest)s)

-- add_operator_session: Begin an operator's session, unless the operator was removed.
INSERT INTO operator_sessions ({OPERATOR_SESSION.names}, digest) SELECT {OPERATOR_SESSION.values}, %(digest)s
WHERE EXISTS (SELECT FROM operators WHERE id = %(session_operator_id)s AND removed_at IS NULL)
RETURNING (SELECT email FROM operators o WHERE o.id = operator_id) AS email

-- touch_session: Write when a session was last used, once a minute however many use it at once.
UPDATE sessions SET last_seen_at = %(at)s WHERE id = %(id)s AND ended_at IS NULL AND last_seen_at <= %(seen_before)s

-- touch_operator_session: The same of an operator's session.
UPDATE operator_sessions SET last_seen_at = %(at)s
WHERE id = %(id)s AND ended_at IS NULL AND last_seen_at <= %(seen_before)s

-- end_session: End a session.
UPDATE sessions s SET ended_at = %(at)s WHERE s.id = %(id)s AND s.ended_at IS NULL RETURNING {SESSION.select}

-- void_links: Delete the unused links of a user; one that is being used is waited for.
DELETE FROM sign_in_links WHERE user_id = %(user_id)s AND used_at IS NULL

-- void_sign_ups: Delete requests for an account that would sign this user in.
DELETE FROM sign_ups WHERE lower(email) = (SELECT lower(email) FROM users WHERE id = %(user_id)s)

-- end_sessions_of: End every session of a user but one.
UPDATE sessions SET ended_at = %(at)s
WHERE user_id = %(user_id)s AND ended_at IS NULL AND id IS DISTINCT FROM %(except_id)s::uuid

-- void_guest_links: Delete the unused links of guests of an account; one that is being used is waited for.
DELETE FROM sign_in_links WHERE account_id = %(account_id)s AND guest_role IS NOT NULL AND used_at IS NULL

-- end_guest_sessions: End every session of a guest, and every view, in an account but one.
UPDATE sessions SET ended_at = %(at)s
WHERE account_id = %(account_id)s AND user_id IS NULL AND ended_at IS NULL AND id IS DISTINCT FROM %(except_id)s::uuid

-- void_operator_links: Delete the unused links of an operator; one that is being used is waited for.
DELETE FROM sign_in_links WHERE operator_id = %(operator_id)s AND used_at IS NULL

-- end_sessions_of_operator: End every session of an operator but one, and the views of accounts.
WITH views AS (
    UPDATE sessions v SET ended_at = %(at)s WHERE v.impersonated_by = %(operator_id)s AND v.ended_at IS NULL
)
UPDATE operator_sessions SET ended_at = %(at)s
WHERE operator_id = %(operator_id)s AND ended_at IS NULL AND id <> %(except_id)s

-- end_operator_session: End an operator's session, and the views of accounts that the operator has.
WITH views AS (
    UPDATE sessions v SET ended_at = %(at)s
    WHERE v.impersonated_by = (SELECT operator_id FROM operator_sessions WHERE id = %(id)s) AND v.ended_at IS NULL
)
UPDATE operator_sessions s SET ended_at = %(at)s WHERE s.id = %(id)s AND s.ended_at IS NULL
RETURNING {OPERATOR_SESSION.select}

-- purge_sign_in: Delete a portion of what ended long ago.
WITH old_sessions AS (
    DELETE FROM sessions WHERE ctid IN (
        SELECT ctid FROM sessions WHERE last_seen_at < %(seen_before)s ORDER BY last_seen_at LIMIT 1000) RETURNING 1
), old_operator_sessions AS (
    DELETE FROM operator_sessions WHERE ctid IN (
        SELECT ctid FROM operator_sessions WHERE last_seen_at < %(seen_before)s ORDER BY last_seen_at LIMIT 1000)
    RETURNING 1
), old_links AS (
    DELETE FROM sign_in_links WHERE ctid IN (
        SELECT ctid FROM sign_in_links WHERE expires_at < %(expired_before)s ORDER BY expires_at LIMIT 1000)
    RETURNING 1
), old_sign_ups AS (
    DELETE FROM sign_ups WHERE ctid IN (
        SELECT ctid FROM sign_ups WHERE expires_at < %(expired_before)s ORDER BY expires_at LIMIT 1000)
    RETURNING 1
)
SELECT (SELECT count(*) FROM old_sessions) + (SELECT count(*) FROM old_operator_sessions)
    + (SELECT count(*) FROM old_links) + (SELECT count(*) FROM old_sign_ups) AS due

-- add_challenge: Write a challenge.
INSERT INTO passkey_challenges ({CHALLENGE.names}) VALUES ({CHALLENGE.values})

-- use_challenge: Use a challenge up: of several at once one finds it.
DELETE FROM passkey_challenges
WHERE digest = %(digest)s AND purpose = %(purpose)s AND is_operators = %(is_operators)s
    AND holder_digest = %(holder_digest)s AND expires_at > %(at)s

-- lock_user: Let one transaction at a time change the passkeys, or the sessions, of a user.
SELECT id FROM users WHERE id = %(user_id)s FOR NO KEY UPDATE

-- lock_operator: The same of an operator.
SELECT id FROM operators WHERE id = %(operator_id)s FOR NO KEY UPDATE

-- lock_operator_of: The same of the operator of a session.
SELECT o.id FROM operator_sessions s JOIN operators o ON o.id = s.operator_id WHERE s.id = %(id)s FOR NO KEY UPDATE OF o

-- is_operator_session_open: Return whether an operator's session was not ended.
SELECT EXISTS (SELECT FROM operator_sessions WHERE id = %(id)s AND ended_at IS NULL) AS is_open

-- list_own_passkeys: The passkeys of a user or of an operator, the oldest first.
SELECT {PASSKEY.select} FROM passkeys p
WHERE p.user_id = %(user_id)s OR p.operator_id = %(operator_id)s ORDER BY p.id

-- add_passkey: Write a passkey, unless its credential is there.
INSERT INTO passkeys ({PASSKEY.names}) VALUES ({PASSKEY.values}) ON CONFLICT (credential) DO NOTHING

-- find_passkey: The passkey of a credential.
SELECT id FROM passkeys WHERE credential = %(passkey_credential)s

-- find_passkey_for_sign_in: The passkey of a credential, locked; not one of an operator who was removed.
SELECT {PASSKEY.select} FROM passkeys p LEFT JOIN operators o ON o.id = p.operator_id
WHERE p.credential = %(credential)s AND (p.operator_id IS NOT NULL) = %(is_operators)s
    AND o.removed_at IS NULL
FOR NO KEY UPDATE OF p

-- save_passkey_use: Write that a passkey was used.
UPDATE passkeys SET sign_count = %(passkey_sign_count)s, last_used_at = %(passkey_last_used_at)s
WHERE id = %(passkey_id)s

-- remove_passkey: Delete a passkey of its owner.
DELETE FROM passkeys p WHERE p.id = %(id)s AND (p.user_id = %(user_id)s OR p.operator_id = %(operator_id)s)
RETURNING {PASSKEY.select}

-- purge_challenges: Delete a portion of the challenges that have expired.
DELETE FROM passkey_challenges WHERE ctid IN (
    SELECT ctid FROM passkey_challenges WHERE expires_at < %(expired_before)s ORDER BY expires_at LIMIT 1000)
