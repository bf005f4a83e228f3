"""Accounts, keys, requests, and retention.

`callers`        a caller authenticated in one round trip
`rate_counters`  the counts of a minute, without Redis
`idempotency`    idempotency keys and their outcomes
`request_log`    the log of requests; last uses of API keys
`grants`         OAuth clients, requests for grants, tokens
`registry`       accounts, keys and hosts, for operators
`retention`      records removed past their retention; accounts erased
`sealed_values`  the sealed columns, resealed under another key
"""
