-- lock_claims: Claim follow one another; the lock ends with the transaction.
SELECT pg_advisory_xact_lock({NOTE_CLAIMS})

-- claim_due_notes: Take notes that are due, as many as the bound on those in progress allows: one for each
-- recording that no other note is working on; each account's in turn, after what it has in progress already.
WITH leased AS MATERIALIZED (
    SELECT account_id, recording_id FROM notes WHERE due_at > statement_timestamp() AND lease_token IS NOT NULL
), waiting AS (
    SELECT account_id, id, due_at, lease_token IS NOT NULL AS was_leased,
        row_number() OVER (PARTITION BY account_id, recording_id ORDER BY due_at, id) AS of_recording
    FROM notes WHERE due_at <= statement_timestamp()
        AND NOT EXISTS (SELECT FROM leased l
            WHERE l.account_id = notes.account_id AND l.recording_id = notes.recording_id)
), ranked AS (
    SELECT account_id, id, due_at, was_leased, row_number() OVER (PARTITION BY account_id ORDER BY due_at, id)
        + (SELECT count(*) FROM leased l WHERE l.account_id = waiting.account_id) AS turn
    FROM waiting WHERE of_recording = 1
), due AS (
    SELECT account_id, id, turn, due_at AS was_due_at, was_leased FROM ranked
    ORDER BY turn, due_at, id
    LIMIT LEAST(%(limit)s, GREATEST(0, %(in_flight)s - (SELECT count(*) FROM leased)))
), n AS (
    UPDATE notes SET status = '{TAKEN}', lease_token = %(token)s,
        lease_expirations = lease_expirations + CASE WHEN lease_token IS NULL THEN 0 ELSE 1 END,
        due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE notes.account_id = due.account_id AND notes.id = due.id AND notes.due_at = due.was_due_at
    RETURNING notes.*, due.turn, due.was_due_at, due.was_leased
)
SELECT {NOTE.select}, n.content AS note_content, {RECORDING.select}, r.files AS recording_files, n.lease_expirations,
    n.was_leased, n.cause
FROM n JOIN recordings r ON r.account_id = n.account_id AND r.id = n.recording_id
ORDER BY n.turn, n.was_due_at, n.id

-- postpone_unreadable: Postpone a note that cannot be read, long enough that it delays no other.
UPDATE notes SET lease_token = NULL, due_at = clock_timestamp() + interval '1 hour'
WHERE account_id = %(account_id)s AND id = %(note_id)s

-- is_any_overdue: Return whether work on a note or a recording has waited for so long without a claim.
SELECT COALESCE(LEAST(
    (SELECT due_at FROM notes WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
        (SELECT due_at FROM recordings WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)
) <= statement_timestamp() - %(seconds)s * interval '1 second', false) AS is_overdue

-- renew_note: Keep a claim, for its holder only.
UPDATE notes SET due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s

-- save_step: Write how far a note has come, for the holder of its claim only. Expired leases count anew.
UPDATE notes SET step = %(note_step)s, duration_s = %(note_duration_s)s, tries = %(note_tries)s,
    content = %(note_content)s, written_by = %(note_written_by)s, lease_expirations = 0
WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s

-- postpone_note: The same, and gives the note back until later.
UPDATE notes SET step = %(note_step)s, duration_s = %(note_duration_s)s, tries = %(note_tries)s,
    content = %(note_content)s, written_by = %(note_written_by)s, lease_token = NULL,
    due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s

-- wake_notes: Make the notes on a recording due that are in no worker's hands and have no transcript yet.
UPDATE notes SET due_at = clock_timestamp()
WHERE account_id = %(account_id)s AND recording_id = %(recording_id)s AND lease_token IS NULL
    AND due_at > clock_timestamp() AND step IN ('fetch', 'transcribe')

-- load_chunks: The transcript chunks of a recording.
SELECT account_id, recording_id, source, number, transcript FROM transcript_chunks
WHERE account_id = %(account_id)s AND recording_id = %(recording_id)s AND source = %(source)s

-- save_chunk: Save the transcript of a chunk, for the holder of the note's claim only. Expired leases count anew.
WITH n AS (
    UPDATE notes SET lease_expirations = 0
    WHERE account_id = %(account_id)s AND id = %(note_id)s AND lease_token = %(token)s RETURNING id
)
INSERT INTO transcript_chunks (account_id, recording_id, source, number, transcript)
SELECT %(account_id)s, %(recording_id)s, %(source)s, %(number)s, %(transcript)s FROM n
ON CONFLICT (account_id, recording_id, source, number) DO UPDATE SET transcript = EXCLUDED.transcript

-- load_of_recording: Read every note on a recording. The account is locked already.
SELECT {NOTE.select}, n.content AS note_content FROM notes n
WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.status <> 'erased' ORDER BY n.id

-- delete_chunks: Delete the transcript chunks of a recording.
DELETE FROM transcript_chunks WHERE account_id = %(account_id)s AND recording_id = %(recording_id)s

-- lock_notified: Lock the endpoints that were notified of a note: claiming, recording and resending take the same
-- locks, so that nothing is written of notes that the next statement erases. The kinds are spelled as in the index.
SELECT id FROM webhook_endpoints WHERE account_id = %(account_id)s AND id IN (
    SELECT d.endpoint_id FROM events e JOIN deliveries d ON d.account_id = e.account_id AND d.event_id = e.id
    WHERE e.account_id = %(account_id)s AND e.subject_id = %(note_id)s
        AND d.event_kind IN ('note.completed', 'note.failed'))
ORDER BY id FOR NO KEY UPDATE

-- load_note: Read a note. The account is locked already.
SELECT {NOTE.select}, n.content AS note_content FROM notes n
WHERE n.account_id = %(account_id)s AND n.id = %(note_id)s FOR NO KEY UPDATE

-- save_edited: Write a note that was corrected by hand.
WITH note AS (
    UPDATE notes SET content = %(note_content)s, edited_at = %(note_edited_at)s
    WHERE account_id = %(account_id)s AND id = %(note_id)s
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s

-- erase_expired_notes: Keep the ids of a note and its money; its events are deleted, sent or not.
WITH erased AS (
    DELETE FROM events WHERE account_id = %(account_id)s AND subject_id = %(note_id)s RETURNING id
), dropped AS (
    DELETE FROM deliveries d USING erased
    WHERE d.account_id = %(account_id)s AND d.event_id = erased.id
        AND d.event_kind IN ('note.completed', 'note.failed')
    RETURNING d.id
), attempts AS (
    DELETE FROM delivery_attempts USING dropped
    WHERE delivery_attempts.account_id = %(account_id)s AND delivery_attempts.delivery_id = dropped.id
), note AS (
    UPDATE notes SET status = %(status)s, content = NULL, written_by = NULL, edited_at = NULL, error = NULL
    WHERE account_id = %(account_id)s AND id = %(note_id)s
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
