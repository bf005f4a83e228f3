"""The SQL statements of notes in SQLite."""

__all__ = [
    "CLAIM",
    "DAILY_CAP",
    "DELETE_CHUNKS",
    "DUE",
    "END",
    "END_HOLD",
    "ERASE",
    "EXISTING_NOTE",
    "HOLD",
    "IN_PROGRESS",
    "LEASED",
    "LOAD_CHUNKS",
    "OF_RECORDING",
    "POSTPONE",
    "RENEW",
    "SAVE_CHUNK",
    "SAVE_STEP",
    "WRITE",
]

# A key's cap, and the note that is in the place of a new one.
DAILY_CAP = "SELECT daily_cap FROM api_keys WHERE id = :api_key_id"
EXISTING_NOTE = """
SELECT * FROM notes
WHERE account_id = :account_id AND recording_id = :recording_id AND language = :language
    AND status IN ('queued', 'processing', 'completed')
"""

# A new note, in progress or over before it began.
WRITE = """
INSERT INTO notes (account_id, id, api_key_id, recording_id, meeting_id, language, status, step, duration_s,
    created_at, tries, content, credits_charged, charge_id, error, completed_at, hold_id, due_at)
VALUES (:account_id, :id, :api_key_id, :recording_id, :meeting_id, :language, :status, :step, :duration_s,
    :created_at, :tries, :content, :credits_charged, :charge_id, :error, :completed_at, :hold_id, :due_at)
"""

# Notes in progress, and notes that are due. One machine's notes in progress are few: who comes next is
# counted outside.
LEASED = "SELECT account_id, recording_id FROM notes WHERE due_at > :now AND lease_token IS NOT NULL"
DUE = "SELECT * FROM notes WHERE due_at <= :now"

# Claims one: it is not due until the lease ends.
CLAIM = """
UPDATE notes SET status = 'processing', lease_token = :token, due_at = :until, deaths = :deaths
WHERE account_id = :account_id AND id = :id
"""

# Writes of a claim's holder: renewal, progress, or release.
RENEW = (
    "UPDATE notes SET due_at = :until WHERE account_id = :account_id AND id = :id AND lease_token = :token"
)
SAVE_STEP = """
UPDATE notes SET step = :step, duration_s = :duration_s, tries = :tries, content = :content
WHERE account_id = :account_id AND id = :id AND lease_token = :token
"""
POSTPONE = """
UPDATE notes SET step = :step, duration_s = :duration_s, tries = :tries, content = :content,
    lease_token = NULL, due_at = :due_at
WHERE account_id = :account_id AND id = :id AND lease_token = :token
"""

# The transcript chunks of a recording; one chunk, from the holder of a note's claim only; and its deletion.
LOAD_CHUNKS = """
SELECT piece, heard FROM heard_pieces
WHERE account_id = :account_id AND recording_id = :recording_id AND source = :source
"""
SAVE_CHUNK = """
INSERT INTO heard_pieces (account_id, recording_id, source, piece, heard)
SELECT account_id, recording_id, :source, :piece, :heard FROM notes
WHERE account_id = :account_id AND id = :id AND lease_token = :token
ON CONFLICT (account_id, recording_id, source, piece) DO UPDATE SET heard = excluded.heard
"""
DELETE_CHUNKS = "DELETE FROM heard_pieces WHERE account_id = :account_id AND recording_id = :recording_id"

# A note in progress, for its holder or for a command that ends it; and its hold.
IN_PROGRESS = """
SELECT * FROM notes WHERE account_id = :account_id AND id = :id AND hold_id IS NOT NULL
    AND (:token IS NULL OR lease_token = :token)
"""
HOLD = "SELECT * FROM holds WHERE account_id = :account_id AND id = :hold_id"
END_HOLD = "DELETE FROM holds WHERE account_id = :account_id AND id = :hold_id"

# What became of a note that is over. It is no longer in progress.
END = """
UPDATE notes SET status = :status, step = :step, duration_s = :duration_s, tries = :tries, content = :content,
    credits_charged = :credits_charged, charge_id = :charge_id, error = :error, completed_at = :completed_at,
    hold_id = NULL, due_at = NULL, lease_token = NULL
WHERE account_id = :account_id AND id = :id
"""

# Every note on a recording.
OF_RECORDING = """
SELECT * FROM notes
WHERE account_id = :account_id AND recording_id = :recording_id AND status <> 'erased' ORDER BY id
"""

# The events of a note, referring rows first.
ERASE = (
    """
    DELETE FROM delivery_attempts WHERE account_id = :account_id AND delivery_id IN (
        SELECT d.id FROM deliveries d JOIN events e ON e.account_id = d.account_id AND e.id = d.event_id
        WHERE e.account_id = :account_id AND e.subject_id = :id)
    """,
    """
    DELETE FROM deliveries WHERE account_id = :account_id AND event_id IN (
        SELECT id FROM events WHERE account_id = :account_id AND subject_id = :id)
    """,
    "DELETE FROM events WHERE account_id = :account_id AND subject_id = :id",
)
