"""Use cases of recordings and notes.

`recordings`    files collected, measured, expired, deleted
`downloads`     signed links to recordings
`note_charges`  notes queued with a hold, charged, failed, corrected
`write_notes`   a worker's steps: transcripts, draft
"""
