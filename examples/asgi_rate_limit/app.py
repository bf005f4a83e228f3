"""An ASGI application that answers five requests a minute for each address.

Run it from the root of the checkout, with meetcore and uvicorn installed, and ask a sixth time::

    uvicorn examples.asgi_rate_limit.app:app
    for _ in 1 2 3 4 5 6; do curl -i http://127.0.0.1:8000/; done
"""

from examples.asgi_rate_limit.middleware import RateLimit, Receive, Scope, Send

__all__ = ["app", "greet"]


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    """Stand in for your application."""
    if scope["type"] != "http":
        # No lifespan and no web sockets: servers take this as an answer.
        raise NotImplementedError(scope["type"])
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


app = RateLimit(greet, limit=5)
