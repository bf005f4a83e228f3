"""Use cases of meetings: made, cancelled, ended, reconciled with the provider.

`create_meeting`      the request for a meeting: it claims, calls the provider, settles
`creation`            its transactions, shared with what finishes or undoes meetings
`cancel_meeting`      the request to cancel one
`cancellation`        its last steps, shared with reconciliation; the end of a meeting
`end_due_meetings`    ends the meetings that are over, looks for their recordings
`reconcile_meetings`  takes over meetings whose lease expired; removes orphans
`reconcile_provider`  finds and resolves differences to the lists of the provider, by hand
`resolve_doubts`      finishes or undoes a meeting in doubt, by hand
`provider_events`     the inbox of the provider's events, and their application
`hosts`               hosts of operators; host keys, replaced by workers
`bounded_provider`    a time limit around each call of the provider
"""
