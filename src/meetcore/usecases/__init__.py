"""The use cases, one for each operation: open a transaction, decide in the domain, save.

Each raises `ports.store.StoreUnavailable` while the database does not answer, `NotFound` where an id names
nothing (of the caller's account), `ActionNotAllowed` where the role does not allow it, and with an
`IdempotentRequest` `IdempotencyKeyReused` where the key belongs to another request. A `sweep` processes every
item, then raises the failures of single ones as an `ExceptionGroup`. A docstring lists what else is raised.
"""
