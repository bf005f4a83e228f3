"""TLS contexts of connections that this service opens.

From Python 3.13 on, a default context refuses certificates that lack some rare extensions, such as those of
private authorities made with `openssl req` and `openssl x509`. An upgrade of Python must not cut the service
from its mail server, its Redis, its broker or the receivers of its customers.
"""

import ssl
from typing import Any


def client_context(ca_file: str | None = None, *, only: str | None = None) -> ssl.SSLContext:
    """Return a context that checks certificates and host names.

    Args:
        ca_file: authorities (PEM) beside those of the system.
        only: authorities (PEM) instead of those of the system.

    Raises:
        OSError: a file cannot be read, or holds no certificates.
    """
    context = without_strict(ssl.create_default_context(cafile=only))
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context


def without_strict(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return a context of a library with the checks of Python before 3.13."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def redis_options(url: str) -> dict[str, Any]:
    """Return the options by which redis-py connects to an address as `client_context` would."""
    return {"ssl_exclude_verify_flags": [ssl.VERIFY_X509_STRICT]} if url.startswith("rediss://") else {}
