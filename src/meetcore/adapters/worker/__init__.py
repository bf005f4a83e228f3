"""The worker: an event loop that sends due deliveries, writes notes and runs periodic repairs."""
