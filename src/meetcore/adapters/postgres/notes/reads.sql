-- find_recording: One of an account's recordings.
SELECT {RECORDING.select}, r.files AS recording_files FROM recordings r WHERE r.account_id = %(account_id)s
    AND r.id = %(id)s

-- list_recordings: A page of an account's recordings; one that is being measured is not shown.
SELECT {RECORDING.select}, r.files AS recording_files FROM recordings r
WHERE r.account_id = %(account_id)s AND r.id < %(before)s AND r.status <> 'measuring'
ORDER BY r.id DESC LIMIT %(limit)s

-- list_of_meeting: The recording of a meeting, where it is shown.
SELECT {RECORDING.select}, r.files AS recording_files FROM recordings r
WHERE r.account_id = %(account_id)s AND r.meeting_id = %(meeting_id)s AND r.id < %(before)s
    AND r.status <> 'measuring'
LIMIT %(limit)s

-- find_note: One of an account's notes.
SELECT {NOTE.select}, n.content AS note_content FROM notes n WHERE n.account_id = %(account_id)s AND n.id = %(id)s

-- list_notes: A page of an account's notes.
SELECT {NOTE.select}, n.content AS note_content FROM notes n
WHERE n.account_id = %(account_id)s AND n.id < %(before)s AND n.status <> 'erased'
ORDER BY n.id DESC LIMIT %(limit)s

-- list_notes_of_recording: Read the next notes on a recording, which are few: all are found by the recording's own index, then
-- sorted. The offset keeps the planner from scanning all of an account's notes instead, in the requested order.
SELECT * FROM (
    SELECT {NOTE.select}, n.content AS note_content FROM notes n
    WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.status <> 'erased' OFFSET 0
) AS few
WHERE note_id < %(before)s ORDER BY note_id DESC LIMIT %(limit)s

-- list_notes_of_meeting: Read the next notes of a meeting, in the same way.
SELECT * FROM (
    SELECT {NOTE.select}, n.content AS note_content FROM notes n
    WHERE n.account_id = %(account_id)s AND n.meeting_id = %(meeting_id)s AND n.status <> 'erased' OFFSET 0
) AS few
WHERE note_id < %(before)s ORDER BY note_id DESC LIMIT %(limit)s

-- list_notes_of_both: Read the next notes on a recording, if it is the meeting's.
SELECT * FROM (
    SELECT {NOTE.select}, n.content AS note_content FROM notes n
    WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.meeting_id = %(meeting_id)s
        AND n.status <> 'erased' OFFSET 0
) AS few
WHERE note_id < %(before)s ORDER BY note_id DESC LIMIT %(limit)s
