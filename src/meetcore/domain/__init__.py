"""The rules, pure: nothing here does I/O, reads a clock, draws randomness or awaits.

State comes in and new state goes out; time, ids and random bytes are arguments; a refusal raises
before anything has changed. Each module is one subject with its own `__all__`, and is used by its
name, so that `holds.release` and `deliveries.release` stay two things::

    from meetcore.domain.money import holds, ledger, pricing

`money`     the credit ledger, holds, prices
`mails`     mails, what they are about, how often they are tried
`meetings`  the life of a meeting, hosts, the schedule, a provider's reports
`notes`     recordings, the life of a note, transcripts
`webhooks`  endpoints, deliveries, events, signatures, addresses
`requests`  keys, accounts, rate windows, idempotency
`members`   people, their roles and sessions, the audit log
`errors`    every refusal and its code
`ids`       UUIDv7
`field_info` what a field means, for schemas
`records`   what customers see
`texts`     lengths and characters of text
`field_info` what a field of a request or record means
"""
