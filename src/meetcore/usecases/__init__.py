"""The use cases, one for each operation: open a transaction, decide in the domain, save.

Each raises `ports.store.StoreUnavailable` while the database does not answer, and one that takes an
`IdempotentRequest` raises `IdempotencyKeyReused` where the key belongs to another request. A docstring
lists what else is raised.
"""
