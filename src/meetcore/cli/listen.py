"""`meetcore listen` and `trigger`: a customer's own machine as a webhook endpoint.

`listen` posts the account's events to an address of the developer's, signed as a delivery is. It reads them
from `GET /events`, so that no port has to be open to the service. `trigger` makes an event happen at a
service on this machine with the sandbox provider, as a customer, a host and a payer would.
"""

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final, Unpack
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import httpx
from cyclopts import Parameter

from meetcore.cli import customer
from meetcore.cli.output import print_message as say
from meetcore.client import Client, Meeting, MeetingFlags
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.proxies import is_this_machine
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.signature import new_secret, signing_headers

TIMEOUT_S: Final = 10.0
"""Of an attempt, as for a delivery (rule 6/4)."""
LEAD: Final = timedelta(seconds=70)
"""The next whole minute that is not over when the request is read."""


def listen(*, forward_to: str, type_: Annotated[customer.Repeated, Parameter(name="--type")] = ()) -> None:
    """Post the account's events to an address, signed as webhooks are, until Ctrl-C.

    The secret is printed, the same at each start with an API key. Each event is posted once.

    Parameters
    ----------
    forward_to:
        Where to, such as http://localhost:3000/hook.
    type_:
        Only these, such as meeting.created.
    """
    with customer.reported():
        _check_address(forward_to)
        access = customer.read_access()
        secret = secret_of(access)
        with customer.customer_client(access) as client, direct_client() as http:
            feed = customer.EventFeed(client, type_)
            say(
                f"Events are posted to {forward_to}; Ctrl-C ends it.\nThe secret of their signature: {secret}"
            )
            for event in feed.follow():
                outcome = forward(http, forward_to, secret, event)
                say(f"{time.strftime('%H:%M:%S')}  {event['type']:<22}  {event['id']}  {outcome}")


def direct_client() -> httpx.Client:
    """Return a client that takes no proxy, by the certificates that the environment names."""
    return httpx.Client(timeout=TIMEOUT_S, trust_env=False, transport=httpx.HTTPTransport())


def _check_address(url: str) -> None:
    """Raise `ValueError` for what no event can be posted to, whatever answers there."""
    with suppress(ValueError, httpx.InvalidURL):
        parts = urlsplit(url)
        httpx.URL(url)
        is_port = parts.port is None or parts.port > 0  # reading it raises for what is no port
        if parts.scheme in ("http", "https") and parts.hostname and is_port and " " not in parts.netloc:
            return
    raise ValueError("--forward-to is an http or https address, such as http://localhost:3000/hook")


def secret_of(access: customer.Access) -> str:
    """Return the webhook secret of `listen`: it follows from the API key, and does not reveal it."""
    return new_secret(hmac.digest(access.api_key.encode(), b"meetcore listen", hashlib.sha256))


def forward(http: httpx.Client, url: str, secret: str, event: customer.Event) -> str:
    """Post an event; return the answer's status and time, or why there is none."""
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "meetcore listen",
        "X-Service-Event": event["type"],
        "X-Service-Delivery": str(uuid4()),
        **signing_headers(secret, event["id"], body, int(time.time())),
    }
    start = time.monotonic()
    try:
        outcome = str(http.post(url, content=body, headers=headers).status_code)
    except httpx.HTTPError as error:
        outcome = f"no answer: {str(error) or type(error).__name__}"
    return f"{outcome}  {(time.monotonic() - start) * 1000:.0f} ms"


def trigger(kind: str) -> None:
    """Make an event happen at a service on this machine.

    The steps to it happen in the sandbox and spend credits of the account: a meeting is made,
    started and ended, a payment is paid. A service elsewhere is refused.

    Parameters
    ----------
    kind:
        The event's type, such as meeting.created.
    """
    with customer.reported():
        if kind not in TRIGGERS:
            raise ValueError(f"what can be triggered: {', '.join(sorted(TRIGGERS))}")
        access = customer.read_access()
        if not is_this_machine(access.base_url):
            raise ValueError("trigger spends credits: it is for `meetcore dev` on this machine alone")
        with customer.customer_client(access) as client, direct_client() as http:
            say(TRIGGERS[kind](client, http))


def create_meeting(client: Client, _: httpx.Client, **flags: Unpack[MeetingFlags]) -> str:
    """Make a meeting, at any time of the next weeks: at the same one, hosts would soon be taken."""
    ahead = timedelta(days=1, minutes=secrets.randbelow(28 * 24 * 60))
    return f"made the meeting {_book(client, ahead, **flags).id}"


def hold_meeting(client: Client, http: httpx.Client, **flags: Unpack[MeetingFlags]) -> str:
    """Make a meeting, start and end it at its page."""
    meeting = _book(client, LEAD, **flags)
    try:
        _press(http, meeting.join_url, "start")
    except ValueError:
        client.meetings.cancel(meeting.id)  # its credits come back
        raise
    _press(http, meeting.join_url, "end")
    return f"held the meeting {meeting.id}"


def _book(client: Client, ahead: timedelta, **flags: Unpack[MeetingFlags]) -> Meeting:
    at = datetime.now(WIB) + ahead
    tier = min(client.pricing_tiers(), key=lambda one: one.credits)
    return client.meetings.create(
        title="Triggered", date=at.date(), start_time=f"{at:%H:%M}", pricing_tier_id=tier.id, **flags
    )


def buy_credits(client: Client, http: httpx.Client) -> str:
    """Start a top-up with the first package, and pay it at the page of the sandbox gateway."""
    package = next(iter(client.credits.packages()), None)
    if package is None:
        raise ValueError("credit.topup.succeeded needs a package of credits on sale, and there is none")
    topup = client.credits.start_topup(package_id=package.id)
    _press(http, topup.payment_url, "pay")
    return f"paid the top-up {topup.id}"


def send_test(client: Client, _: httpx.Client) -> str:
    """Send `webhook.test` to the newest webhook."""
    webhook = next(iter(client.webhooks.list()), None)
    if webhook is None:
        raise ValueError("webhook.test needs a webhook of the account, and there is none")
    return f"sent the delivery {client.webhooks.test(webhook.id).id}"


def _press(http: httpx.Client, page: str | None, button: str) -> None:
    """Press a button of a page of the sandbox; raise `ValueError` where it has none.

    Nothing is sent to another machine: a page there is the provider's own, or the gateway's.
    """
    parts = urlsplit(page or "")
    if not is_this_machine(page or ""):
        raise ValueError(
            "this needs the sandbox, with MEETCORE_PROVIDER and MEETCORE_PAYMENT_GATEWAY unset: its page is "
            f"at {parts.netloc or 'no address'}, not on this machine"
        )
    try:
        status = http.post(urlunsplit(parts._replace(path=f"{parts.path}/{button}"))).status_code
    except httpx.HTTPError as error:
        raise ValueError(f"{parts.netloc} does not answer: {error}") from None
    if status >= httpx.codes.BAD_REQUEST:
        raise ValueError(f"there is no button {button} at {parts.netloc}{parts.path}")


TRIGGERS: Final[Mapping[str, Callable[[Client, httpx.Client], str]]] = {
    EventKind.MEETING_CREATED: create_meeting,
    EventKind.MEETING_ENDED: hold_meeting,
    EventKind.RECORDING_READY: partial(hold_meeting, with_recording=True),
    EventKind.NOTE_COMPLETED: partial(hold_meeting, auto_notulen=True),
    EventKind.CREDIT_TOPUP_SUCCEEDED: buy_credits,
    EventKind.WEBHOOK_TEST: send_test,
}
"""What happens for an event, by its type. `credit.low` and `note.failed` need an account in that state."""
