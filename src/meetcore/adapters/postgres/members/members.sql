-- ensure_user: Write a user, or reads who has the address; the update takes the row's lock and shows what another
-- transaction wrote.
INSERT INTO users AS u ({USER.names}) VALUES ({USER.values})
ON CONFLICT (lower(email)) DO UPDATE SET email = u.email RETURNING {USER.select}

-- set_language: The language of mails to a user; the first one only where there is none yet.
UPDATE users SET language = %(language)s WHERE id = %(id)s AND (language IS NULL OR NOT %(is_first)s)

-- set_name: The name of a user, in every account.
UPDATE users SET full_name = %(full_name)s WHERE id = %(id)s

-- load_members: The members of an account, the oldest first.
SELECT {MEMBERSHIP.select} FROM memberships b WHERE b.account_id = %(account_id)s
ORDER BY b.created_at, b.account_id, b.user_id

-- load_memberships: The accounts of a user, the oldest membership first.
SELECT {MEMBERSHIP.select} FROM memberships b WHERE b.user_id = %(user_id)s
ORDER BY b.created_at, b.account_id, b.user_id

-- delete_earlier_passkeys: Delete the passkeys of a user who is a member of no account: another person may hold the
-- address by now. The user is locked.
DELETE FROM passkeys WHERE user_id = %(membership_user_id)s
    AND NOT EXISTS (SELECT FROM memberships WHERE user_id = %(membership_user_id)s)

-- add_membership: Make a user a member, unless one already.
INSERT INTO memberships ({MEMBERSHIP.names}) VALUES ({MEMBERSHIP.values}) ON CONFLICT DO NOTHING

-- save_membership: Write the role of a member.
UPDATE memberships SET role = %(membership_role)s
WHERE account_id = %(account_id)s AND user_id = %(membership_user_id)s

-- remove_membership: End a membership and the user's sessions in the account, and give up the mails about the account that
-- wait for the user.
WITH ended AS (
    UPDATE sessions SET ended_at = %(at)s
    WHERE account_id = %(account_id)s AND user_id = %(user_id)s AND ended_at IS NULL
), unsent AS (
    UPDATE mails SET due_at = NULL, lease_token = NULL, content = NULL, failed_at = %(at)s, last_error = 'removed'
    WHERE account_id = %(account_id)s AND due_at IS NOT NULL
        AND lower(recipient) = (SELECT lower(email) FROM users WHERE id = %(user_id)s)
        AND kind NOT IN ('sign_in_link', 'invitation', 'passkey_changed')
)
DELETE FROM memberships WHERE account_id = %(account_id)s AND user_id = %(user_id)s

-- revoke_pending: Revoke pending invitations of an address, so that only one is pending.
UPDATE invitations SET revoked_at = %(invitation_created_at)s
WHERE account_id = %(account_id)s AND lower(email) = lower(%(invitation_email)s)
    AND accepted_at IS NULL AND revoked_at IS NULL

-- revoke_invitations_of: Revoke the pending invitations that a member made in an account, which is locked, and where
-- asked those to the member.
UPDATE invitations i SET revoked_at = %(at)s
WHERE i.account_id = %(account_id)s AND i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > %(at)s
    AND (i.invited_by = %(user_id)s OR (%(to_member)s
        AND lower(i.email) = (SELECT lower(u.email) FROM users u WHERE u.id = %(user_id)s)))
RETURNING {INVITATION.select}

-- add_invitation: Write an invitation.
INSERT INTO invitations ({INVITATION.names}) VALUES ({INVITATION.values})

-- count_invitations: How many invitations are pending, but to one address, and were made since, and whether the account
-- ever had an entry in its ledger.
SELECT
    count(*) FILTER (WHERE i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > %(now)s
        AND lower(i.email) <> lower(%(except_email)s)) AS pending,
    count(*) FILTER (WHERE i.created_at > %(since)s) AS today,
    (SELECT a.entries > 0 FROM accounts a WHERE a.id = %(account_id)s) AS had_credits
FROM invitations i WHERE i.account_id = %(account_id)s

-- load_invitation: One invitation, locked.
SELECT {INVITATION.select} FROM invitations i WHERE i.id = %(id)s FOR NO KEY UPDATE

-- save_invitation: Write when an invitation was accepted or revoked.
UPDATE invitations SET accepted_at = %(invitation_accepted_at)s, revoked_at = %(invitation_revoked_at)s
WHERE id = %(invitation_id)s

-- add_operator: Write an operator, unless the address has one.
INSERT INTO operators ({OPERATOR.names}) VALUES ({OPERATOR.values})
ON CONFLICT (lower(email)) WHERE removed_at IS NULL DO NOTHING

-- find_operator: The operator of an e-mail address.
SELECT id FROM operators WHERE lower(email) = lower(%(operator_email)s) AND removed_at IS NULL

-- remove_operator: Remove an operator and ends the sessions; a second call keeps the first time.
WITH ended AS (
    UPDATE operator_sessions SET ended_at = %(at)s WHERE operator_id = %(id)s AND ended_at IS NULL
), views AS (
    UPDATE sessions SET ended_at = %(at)s WHERE impersonated_by = %(id)s AND ended_at IS NULL
)
UPDATE operators o SET removed_at = COALESCE(o.removed_at, %(at)s) WHERE o.id = %(id)s RETURNING {OPERATOR.select}

-- add_token: Write a token.
INSERT INTO operator_tokens ({OPERATOR_TOKEN.names}, digest) VALUES ({OPERATOR_TOKEN.values}, %(digest)s)

-- revoke_token: Revoke a token; a second call keeps the first time.
UPDATE operator_tokens t SET revoked_at = COALESCE(t.revoked_at, %(at)s) WHERE t.id = %(id)s
RETURNING {OPERATOR_TOKEN.select}
