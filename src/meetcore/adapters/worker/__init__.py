"""The worker: an event loop that sends what is due and mends what was left behind."""
