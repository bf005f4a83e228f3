"""The worker: an event loop that sends what is due and repairs what was left behind."""
