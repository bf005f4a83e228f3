"""The outbox: events and their deliveries, from the transaction of the change to the last attempt."""
