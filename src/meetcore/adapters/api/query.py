"""The query of a request, bounded before it is read."""

from urllib.parse import parse_qsl

from meetcore.adapters.api.limits import RequestLimits
from meetcore.domain.errors import InvalidRequest


def check_query(raw: bytes, limits: RequestLimits) -> None:
    """Make sure that a query is small enough to be read.

    Raises:
        InvalidRequest: it has more parameters or bytes than are allowed.
    """
    if len(raw) > limits.query_bytes:
        raise InvalidRequest({"query": [f"must not be longer than {limits.query_bytes} bytes"]})
    if raw.count(b"&") >= limits.query_parameters:
        raise InvalidRequest({"query": [f"must not have more than {limits.query_parameters} parameters"]})


def read_query(raw: bytes, limits: RequestLimits) -> dict[str, list[str]]:
    """Read a query in one pass: the values of each parameter, by its name.

    Raises:
        InvalidRequest: see `check_query`.
    """
    check_query(raw, limits)
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        values.setdefault(name, []).append(value)
    return values
