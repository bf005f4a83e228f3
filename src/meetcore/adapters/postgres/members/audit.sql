-- append_audit: Write one entry.
INSERT INTO audit_log ({AUDIT_ENTRY.names}, details) VALUES ({AUDIT_ENTRY.values}, %(details)s)

-- list_audit: A page of the whole log, by the primary key backwards.
SELECT
    {AUDIT_ENTRY.select}, g.details,
    (SELECT u.email FROM users u WHERE g.actor_kind = 'member' AND u.id = g.actor_id) AS member,
    COALESCE(
        (SELECT i.email FROM invitations i WHERE i.id = CASE
            WHEN g.action IN ('member.invited', 'member.invitation_revoked', 'session.refused')
            THEN g.target_id::uuid END),
        (SELECT u.email FROM users u WHERE u.id = CASE WHEN g.action = 'session.refused' THEN g.target_id::uuid END)
    ) AS target_email,
    (SELECT m.title FROM meetings m WHERE m.account_id = g.account_id AND m.id = CASE
        WHEN g.action IN ('meeting.created', 'meeting.cancelled', 'meeting.ended') THEN g.target_id::uuid END) AS title
FROM audit_log g WHERE g.id < %(before)s ORDER BY g.id DESC LIMIT %(limit)s

-- list_audit_of_account: The same of one account.
SELECT
    {AUDIT_ENTRY.select}, g.details,
    (SELECT u.email FROM users u WHERE g.actor_kind = 'member' AND u.id = g.actor_id) AS member,
    COALESCE(
        (SELECT i.email FROM invitations i WHERE i.id = CASE
            WHEN g.action IN ('member.invited', 'member.invitation_revoked', 'session.refused')
            THEN g.target_id::uuid END),
        (SELECT u.email FROM users u WHERE u.id = CASE WHEN g.action = 'session.refused' THEN g.target_id::uuid END)
    ) AS target_email,
    (SELECT m.title FROM meetings m WHERE m.account_id = g.account_id AND m.id = CASE
        WHEN g.action IN ('meeting.created', 'meeting.cancelled', 'meeting.ended') THEN g.target_id::uuid END) AS title
FROM audit_log g
WHERE g.account_id = %(account_id)s AND g.id < %(before)s ORDER BY g.id DESC LIMIT %(limit)s
