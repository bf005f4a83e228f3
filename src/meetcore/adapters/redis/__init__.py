"""What lives in Redis: the rate counters."""
