"""Rate counters in Redis."""
