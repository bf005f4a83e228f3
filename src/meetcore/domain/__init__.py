"""The rules, pure: nothing here does I/O, reads a clock, draws randomness or awaits.

State comes in and new state goes out; time, ids and random bytes are arguments; a refusal raises before
anything has changed. Import modules, so that `holds.release` and `deliveries.release` stay distinct::

    from meetcore.domain.money import holds, ledger, pricing

`money`     the credit ledger, holds, prices
`mails`     mails, their contents, how often they are tried
`meetings`  the life of a meeting, hosts, the schedule, a provider's events
`notes`     recordings, the life of a note, transcripts
`payments`  payments for credits: packages, states, refunds, receipts
`webhooks`  endpoints, deliveries, events, signatures, addresses
`requests`  keys, accounts, rate windows, idempotency
`members`   members, their roles and sessions, the audit log
`records`   the records of the API
`proxies`   the proxy that an environment names, and addresses in the clear
`checks`    flags and whole numbers of callers without a type checker
`machine`   one step of a state machine
`errors`    every refusal and its code
`fields`    the meaning of a field, for schemas
`ids`       UUIDv7
`texts`     lengths and characters of text
"""
