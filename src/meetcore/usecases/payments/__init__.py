"""Use cases of payments: start, follow, refund, doubts."""
