"""The worker: an event loop that sends due deliveries, writes notes and runs periodic tasks.

`workers`    the delivery worker and the note worker
`scheduler`  periodic tasks and claimed work, on which both are built
"""
