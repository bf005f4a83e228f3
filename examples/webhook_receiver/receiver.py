r"""A webhook receiver that verifies every request, on the standard library alone.

Run it from the root of the checkout, with meetcore installed, and put TLS in front of it: webhooks go to
https only. The secret is the one that you were given when you registered the endpoint. While it is rotated,
give both::

    NEW=whsec_b25seS1hbi1leGFtcGxlLW5ldmVyLXVzZS1pdC1uZXc=
    OLD=whsec_b25seS1hbi1leGFtcGxlLW5ldmVyLXVzZS1pdC1vbGQ=
    WEBHOOK_SECRETS="$NEW $OLD" python -m examples.webhook_receiver.receiver 8080

Try it from another terminal, without TLS and without the service; it answers 204 and prints the event::

    SECRET=whsec_b25seS1hbi1leGFtcGxlLW5ldmVyLXVzZS1pdC1uZXc= python -c 'import os, time; \
        from urllib.request import Request, urlopen; from meetcore.domain.webhooks.signature import *; \
        body = b"{\"id\": \"e-1\"}"; signed = sign(os.environ["SECRET"], body, int(time.time())); \
        print(urlopen(Request("http://127.0.0.1:8080", body, {SIGNATURE_HEADER: signed})).status)'

In the order in which a careful receiver works:

1. The length is known and small before anything is read, and reading has a time limit.
2. The signature is checked over the raw bytes, in constant time, against each secret, within five minutes.
3. Only then is the body parsed.
4. The event is put into the inbox under its id. One that is there already was delivered twice, and is done.
5. The answer is 204, at once. The work is done afterwards, from the inbox, by a thread of its own.

Owns the answers over HTTP. `inbox` keeps events, `handle` works on them.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread, Timer

from examples.webhook_receiver.inbox import Inbox
from meetcore.domain.webhooks.signature import SECRET_PREFIX, SIGNATURE_HEADER, SignatureRejected, verify

__all__ = ["MAX_BODY_BYTES", "DeliveryServer", "Receiver", "receiver", "work"]

MAX_BODY_BYTES = 256 * 1024


class Receiver(BaseHTTPRequestHandler):
    """One request. Made by the server with the secrets, the inbox and the clock that `receiver` binds."""

    timeout = 10  # seconds on a request, and on each read: a sender that drips bytes is cut off
    server_version, sys_version = "receiver", ""

    def __init__(
        self, *connection: object, secrets: Sequence[str], inbox: Inbox, clock: Callable[[], float]
    ) -> None:
        self._secrets, self._inbox, self._clock = secrets, inbox, clock
        super().__init__(*connection)  # type: ignore[arg-type]  # the server's own three, passed through

    def handle(self) -> None:
        """Read no longer than the time limit: that of the socket begins anew with each byte."""
        over = Timer(self.timeout, self.connection.shutdown, (socket.SHUT_RD,))
        over.start()
        try:
            super().handle()
        finally:
            over.cancel()

    def do_POST(self) -> None:
        """Take a delivery."""
        self.send_response(self._receive())
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _receive(self) -> HTTPStatus:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return HTTPStatus.LENGTH_REQUIRED
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        body = self.rfile.read(int(length))
        signatures = self.headers.get_all(SIGNATURE_HEADER, [])
        if len(body) < int(length) or len(signatures) != 1:
            return HTTPStatus.BAD_REQUEST
        try:
            verify(self._secrets, body, signatures[0], int(self._clock()))
        except SignatureRejected as rejected:
            self.log_error("%s", rejected)  # safe to log; the sender learns nothing but "no"
            return HTTPStatus.UNAUTHORIZED
        event_id = read_event_id(body)
        if event_id is None:
            return HTTPStatus.BAD_REQUEST
        self._inbox.put(event_id, body)
        return HTTPStatus.NO_CONTENT


def read_event_id(body: bytes) -> str | None:
    """The id in the signed body, not the one in a header: `X-Service-Signature` covers no header."""
    try:
        event = json.loads(body)
    except ValueError:
        return None
    event_id = event.get("id") if isinstance(event, dict) else None
    return event_id if isinstance(event_id, str) else None


class DeliveryServer(ThreadingHTTPServer):
    """A thread for each connection; a burst of deliveries waits in the queue instead of being dropped."""

    request_queue_size = 128


def receiver(
    address: tuple[str, int], secrets: Sequence[str], inbox: Inbox, clock: Callable[[], float] = time.time
) -> DeliveryServer:
    """A server for deliveries, bound and not yet serving.

    Args:
        address: host and port; port 0 takes a free one.
        secrets: any of them may have signed.
        inbox: where verified events go.
        clock: unix time in seconds.
    """
    return DeliveryServer(address, partial(Receiver, secrets=secrets, inbox=inbox, clock=clock))


def work(inbox: Inbox, handle: Callable[[bytes], None], stop: Event) -> None:
    """Handle what is in the inbox, oldest first, until the stop event.

    An event whose handling raised stays in the inbox, behind those that were tried less often. It is tried
    again when the next one arrives, or after a second.
    """
    while not stop.is_set():
        try:
            while inbox.handle_next(handle):
                pass
        except Exception as failure:  # noqa: BLE001 - a handler may fail in any way, and the next event is not to blame
            sys.stderr.write(f"not handled, will be tried again: {failure!r}\n")
        inbox.wait(1.0)


def show(body: bytes) -> None:
    """Stand in for your work."""
    print(body.decode(), flush=True)  # noqa: T201 - what this program does


def arguments() -> tuple[int, list[str]]:
    """The port and the secrets that the program was given.

    Raises:
        SystemExit: one of them is missing or invalid; the message says which.
    """
    secrets = os.environ.get("WEBHOOK_SECRETS", "").split()
    if not secrets or not all(secret.startswith(SECRET_PREFIX) for secret in secrets):
        raise SystemExit(
            f"Set WEBHOOK_SECRETS to the endpoint's secret, {SECRET_PREFIX}..., as it was given when the"
            " endpoint was registered. While it is rotated, set it to the new and the old one: 'NEW OLD'."
        )
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        raise SystemExit("Give the port to listen on, such as 8080; 0 takes a free one.")
    return int(sys.argv[1]), secrets


def main() -> None:
    """Serve on a port of loopback until interrupted; the inbox is a file where it was started."""
    port, secrets = arguments()
    inbox, stop = Inbox(Path("inbox.sqlite3")), Event()
    worker = Thread(target=work, args=(inbox, show, stop))
    worker.start()
    try:
        with receiver(("127.0.0.1", port), secrets, inbox) as server:
            sys.stderr.write(f"receiving on http://127.0.0.1:{server.server_address[1]}\n")
            server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        stop.set()
        worker.join()
        inbox.close()


if __name__ == "__main__":
    main()
