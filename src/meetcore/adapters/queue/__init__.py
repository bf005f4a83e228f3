"""The queue that wakes the workers: dramatiq on Redis, on RabbitMQ or in process."""
