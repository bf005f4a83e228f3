"""The records of spec 2, as customers see them in answers and in event payloads.

One class for each: its fields in the order of the JSON, with what the documentation says of them. The API's
schemas are derived from the classes, the service encodes them, and `meetcore.client` decodes into them.

Ids are `str`: opaque to callers. Times have whole seconds and their offset. Where the API may grow (a status,
a kind, a scope) a field is a `str` with its values of today in its `FieldInfo`, so that readers accept later
ones; what may be null has None as its default.

`accounts`  accounts, users, keys; the balance, transactions, tiers, estimates
`meetings`  meetings and their cancellation
`notes`     notes and recordings
`payments`  packages of credits, and payments for credits
`webhooks`  webhooks, their deliveries and events
`pages`     not of the API: records of the dashboard and of the console
`documents` not of the API: content to print
"""
