-- find_session: The session of a token with its account, and for a member the user and the present role.
SELECT {SESSION.select}, {ACCOUNT.select}, {USER.select}, b.role AS role
FROM sessions s JOIN accounts a ON a.id = s.account_id
LEFT JOIN users u ON u.id = s.user_id
LEFT JOIN memberships b ON b.account_id = s.account_id AND b.user_id = s.user_id
WHERE s.digest = %(digest)s AND (s.user_id IS NULL OR b.role IS NOT NULL)
    AND (s.impersonated_by IS NULL OR EXISTS (
        SELECT FROM operators o
        WHERE o.id = s.impersonated_by AND o.removed_at IS NULL AND o.role = ANY(%(viewers)s)))

-- find_operator_session: The operator's session of a token, and how many payments are in doubt, for the menu.
SELECT {OPERATOR_SESSION.select}, {OPERATOR.select},
    (SELECT count(*) FROM payments WHERE doubt IS NOT NULL AND doubt_closed_at IS NULL) AS payments_in_doubt
FROM operator_sessions s JOIN operators o ON o.id = s.operator_id
WHERE s.digest = %(digest)s AND o.removed_at IS NULL

-- list_sessions: The sessions that were not ended and were used of late: a user's, then those without a user in an account,
-- the newest first.
SELECT {SESSION.select} FROM sessions s
WHERE s.ended_at IS NULL AND s.last_seen_at > %(seen_after)s
    AND (s.user_id = %(user_id)s OR (s.account_id = %(guests_of)s AND s.user_id IS NULL))
ORDER BY s.user_id IS NULL, s.id DESC LIMIT %(limit)s

-- list_operator_sessions: The sessions of an operator that were not ended and were used of late, the newest first.
SELECT {OPERATOR_SESSION.select} FROM operator_sessions s
WHERE s.operator_id = %(operator_id)s AND s.ended_at IS NULL AND s.last_seen_at > %(seen_after)s
ORDER BY s.id DESC LIMIT %(limit)s

-- list_account_sessions: A page of the sessions in an account.
SELECT {SESSION.select} FROM sessions s WHERE s.account_id = %(account_id)s AND s.id < %(before)s
ORDER BY s.id DESC LIMIT %(limit)s

-- list_members: The members of an account, the oldest first.
SELECT {USER.select}, {MEMBERSHIP.select} FROM memberships b JOIN users u ON u.id = b.user_id
WHERE b.account_id = %(account_id)s ORDER BY b.created_at, b.account_id, b.user_id

-- list_accounts: The accounts of a user, the oldest membership first.
SELECT a.id, a.full_name, a.email, b.role FROM memberships b JOIN accounts a ON a.id = b.account_id
WHERE b.user_id = %(user_id)s ORDER BY b.created_at, b.account_id, b.user_id

-- list_invitations: The invitations to an account that can be accepted, the newest first.
SELECT {INVITATION.select} FROM invitations i
WHERE i.account_id = %(account_id)s AND i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > %(now)s
ORDER BY i.id DESC

-- list_operators: Operators who were not removed, the oldest first.
SELECT {OPERATOR.select} FROM operators o WHERE o.removed_at IS NULL ORDER BY o.id

-- find_token: The operator's token of a digest.
SELECT {OPERATOR_TOKEN.select} FROM operator_tokens t WHERE t.digest = %(digest)s

-- list_tokens: Every operator's token, the oldest first.
SELECT {OPERATOR_TOKEN.select} FROM operator_tokens t ORDER BY t.id
