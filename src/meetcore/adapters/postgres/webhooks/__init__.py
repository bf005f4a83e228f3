"""Endpoints, events and deliveries.

`endpoints`   endpoints; events and deliveries for one of them by hand
`deliveries`  deliveries claimed, recorded, released, expired
`reads`       endpoints, deliveries and events, read
`rows`        columns, and the parameters of statements that write events
"""
