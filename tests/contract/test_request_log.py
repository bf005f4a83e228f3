"""What became of requests, in every store."""

from meetcore.testing.contracts import RequestLogContract


class TestRequestLog(RequestLogContract):
    """In memory and in Postgres."""
