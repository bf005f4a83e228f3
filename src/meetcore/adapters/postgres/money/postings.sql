-- load_posting: Read an account's funds under its lock, and the entries of operations that are in the ledger.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
)
SELECT {ENTRY.select}, {TRANSFER.select}, locked.*,
    (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version
FROM locked
LEFT JOIN ledger_transfers t ON t.account_id = %(account_id)s AND t.operation = ANY (%(operations)s::text[])
LEFT JOIN ledger_entries e ON e.account_id = %(account_id)s AND e.transfer_id = t.id AND e.book = 'customer'

-- append_if_unchanged: Append entries with their events and audit entries to accounts whose funds are as they were
-- read, that have none of the operations, and that no other transaction has locked. What is known is read once, by
-- its keys; each account is found by its key.
WITH posted AS MATERIALIZED (
    SELECT account_id, {TRANSFER.names}
    FROM json_populate_recordset(NULL::ledger_transfers, %(transfers)s::json)
), known AS MATERIALIZED (
    SELECT p.account_id FROM posted p CROSS JOIN LATERAL (
        SELECT FROM ledger_transfers t WHERE t.account_id = p.account_id AND t.operation = p.operation OFFSET 0) AS t
), guard AS MATERIALIZED (
    SELECT a.account_id FROM json_populate_recordset(NULL::accounts, %(funds_read)s::json) w CROSS JOIN LATERAL (
        SELECT a.id AS account_id FROM accounts a
        WHERE a.id <> ALL (ARRAY(SELECT account_id FROM known))
            AND {SAME_FUNDS}
        FOR NO KEY UPDATE OF a SKIP LOCKED) AS a
), new_transfer AS (
    INSERT INTO ledger_transfers (account_id, {TRANSFER.names})
    SELECT account_id, {TRANSFER.names} FROM posted WHERE account_id IN (SELECT account_id FROM guard)
), new_entry AS (
    INSERT INTO ledger_entries (book, transfer_id, {ENTRY.names})
    SELECT book, transfer_id, {ENTRY.names}
    FROM json_populate_recordset(NULL::ledger_entries, %(legs)s::json)
    WHERE account_id IN (SELECT account_id FROM guard)
), new_action AS (
    INSERT INTO audit_log ({AUDIT_ENTRY.names}, details)
    SELECT {AUDIT_ENTRY.names}, details FROM json_populate_recordset(NULL::audit_log, %(actions)s::json)
    WHERE account_id IN (SELECT account_id FROM guard)
), new_event AS (
    INSERT INTO events (account_id, id, kind, payload, created_at, subject_id, cause)
    SELECT account_id, id, kind, payload, created_at, subject_id, cause
    FROM json_populate_recordset(NULL::events, %(events)s::json)
    WHERE account_id IN (SELECT account_id FROM guard)
    RETURNING account_id, id, kind, created_at
), new_delivery AS (
    INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, held_at, created_at)
    SELECT e.account_id, (left(e.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, w.id, e.id, e.kind,
        CASE w.state WHEN 'active' THEN 'pending' ELSE 'held' END,
        CASE w.state WHEN 'active' THEN clock_timestamp() END,
        CASE w.state WHEN 'active' THEN NULL ELSE clock_timestamp() END, e.created_at
    FROM new_event e CROSS JOIN LATERAL (SELECT id, state FROM webhook_endpoints
        WHERE account_id = e.account_id AND e.kind = ANY (event_types) OFFSET 0) AS w
    RETURNING account_id, status
), account AS (
    UPDATE accounts a SET ({FUNDS_AFTER.names}) = (
        {FUNDS_AFTER.select}
    ), version = a.version + 1
    FROM json_populate_recordset(NULL::accounts, %(funds_after)s::json) w
    WHERE a.id = w.id AND a.id = ANY (ARRAY(SELECT account_id FROM guard))
)
SELECT account_id, (SELECT count(*) FROM new_delivery d WHERE d.account_id = guard.account_id
        AND status = 'pending') AS due
FROM guard

-- add_proposal: Write a proposal.
INSERT INTO credit_proposals ({PROPOSAL.names}) VALUES ({PROPOSAL.values})

-- find_proposal: The proposal that holds a reference. Both conditions are those of the unique index.
SELECT {PROPOSAL.select} FROM credit_proposals p
WHERE p.account_id = %(account_id)s AND p.kind = %(kind)s AND p.reference = %(reference)s
    AND p.is_approved IS NOT FALSE AND NOT p.is_replaced

-- lock_account_of_proposal: Take the lock of a proposal's account and raises the version, so that waiting readers
-- read again.
UPDATE accounts a SET version = a.version + 1 FROM credit_proposals p WHERE p.id = %(id)s AND a.id = p.account_id

-- load_proposal: One proposal. Its account is locked by now.
SELECT {PROPOSAL.select} FROM credit_proposals p WHERE p.id = %(id)s

-- save_decision: Write a decision.
UPDATE credit_proposals SET is_approved = %(proposal_is_approved)s, decided_by = %(proposal_decided_by)s,
    decider = %(proposal_decider)s, decided_at = %(proposal_decided_at)s
WHERE id = %(proposal_id)s

-- lock_mover: Let one transaction at a time move credits for an operator.
SELECT id FROM operators WHERE id = %(id)s FOR NO KEY UPDATE

-- moved_alone: Sum the credits that operators moved without a proposal, by this one and in this account.
SELECT GREATEST(
    sum(abs((g.details->>'amount')::bigint)) FILTER (
        WHERE g.actor_id = %(operator_id)s OR lower(g.actor_name) = lower(%(email)s)),
    sum(abs((g.details->>'amount')::bigint)) FILTER (WHERE g.account_id = %(account_id)s), 0) AS moved
FROM audit_log g
WHERE g.id >= %(first)s AND g.actor_kind = 'operator' AND g.action IN ('credits.topped_up', 'credits.adjusted', 'credits.refunded')
    AND (SELECT count(*) FROM ledger_transfers t JOIN credit_proposals p ON p.account_id = t.account_id
            AND p.kind = split_part(t.operation, ':', 1)
            AND p.reference = substr(t.operation, strpos(t.operation, ':') + 1)
            AND p.is_approved IS NOT FALSE AND NOT p.is_replaced AND p.is_approved
        WHERE t.account_id = g.account_id AND t.id = g.target_id::uuid) = 0

-- mark_replaced: Take its reference from a proposal that has expired.
UPDATE credit_proposals SET is_replaced = true WHERE id = %(id)s
