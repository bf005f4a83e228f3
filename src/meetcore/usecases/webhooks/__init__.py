"""Use cases of webhooks.

`events`          facts of the domain as events; lists the statements that insert them
`endpoints`       endpoints registered, changed, removed; test events, repeated deliveries, recovery
`deliver`         due deliveries claimed, posted, recorded
`sender_results`  recent results, which show whether the sender is at fault or a receiver
"""
