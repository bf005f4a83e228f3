"""Recordings and notes.

`recordings`  recordings, and the work on them
`create`      notes queued; completed or failed, with their money
`work`        notes claimed, their steps, their contents
`reads`       recordings and notes, read
`rows`        columns, and documents that are sealed
"""
