"""Requests: API keys, limits, and repeated requests.

`keys`         form, digest and scopes of API keys
`grants`       OAuth: clients, authorizations and tokens of agents
`clients`      one client among the limits by address
`accounts`     the state of an account
`rate_window`  fixed windows of a minute
`idempotency`  the outcome of a repeated request
`request_log`  the log of requests, and their traces
`retention`    how long meetings and notes are kept (recordings: `notes.recordings`); erasure of accounts
`views`        records that the store reads and writes
"""
