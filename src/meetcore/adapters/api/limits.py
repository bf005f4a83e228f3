"""The limits of one request before its work begins: the size of its query, the time of its body."""

from attrs import frozen


@frozen
class RequestLimits:
    """The limits of one request.

    A query has at most `query_parameters` parameters and `query_bytes` bytes. A body is whole within
    `body_timeout_s` seconds; from half of that time on, `body_bytes_per_s` have come on average. Where
    reading the body took more than `recheck_after_s` seconds, the key is checked again.
    """

    query_parameters: int = 32
    query_bytes: int = 4096
    body_timeout_s: float = 10.0
    body_bytes_per_s: int = 1024
    recheck_after_s: float = 1.0
