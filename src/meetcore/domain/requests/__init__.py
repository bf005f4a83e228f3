"""Requests: who sends one, how often, and what a repeated one gets.

`keys`           form, digest and scopes of API keys
`accounts`       the state of an account
`rate_window`    fixed windows of a minute
`idempotency`    what a repeated request gets
`request_log`    what is kept of each request
`trace_context`  which trace a request belongs to
`erasures`       when an account can be erased
`retention`      how long meetings and notes are kept
`restores`       what a restore of the database lost
"""
