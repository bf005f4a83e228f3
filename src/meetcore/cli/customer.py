"""`meetcore api` and `events`: a customer's commands, which speak to a service by an API key.

The key and the address are taken from the environment, `MEETCORE_API_KEY` and `MEETCORE_BASE_URL`, or from
`api_key` and `base_url` of `~/.config/meetcore/config.toml` (`XDG_CONFIG_HOME`). Nothing of the service is
imported: the extra `client` suffices.
"""

import json
import os
import stat
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlsplit

from attrs import define, evolve, field, frozen
from cyclopts import App, Parameter

from meetcore.cli.output import ExitCode, complain
from meetcore.client import ApiError, Client, ConnectionFailed, MeetcoreError, UnexpectedResponse
from meetcore.client.calls import Call, change, read
from meetcore.client.clients import API_KEY_VARIABLE, BASE_URL_VARIABLE
from meetcore.client.exchange import is_retryable
from meetcore.client.transport import API_ROOT

METHODS: Final = ("GET", "POST", "PATCH", "DELETE")
POLL_S: Final = 0.5
"""Two requests in a second are 120 a minute, of the 300 reads that a key has by default."""
OVERLAP: Final = timedelta(minutes=1)
"""An event whose transaction ended later than that of a newer one is listed below it."""
MAX_PAGE: Final = "100"

Event = dict[str, Any]
Repeated = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]

events = App(name="events", help="The events of the account, as webhooks are sent them.")


def config_file() -> Path:
    """Return where the key and the address may be kept."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "meetcore" / "config.toml"


@frozen
class Access:
    """Where the service is, and by which key."""

    base_url: str
    api_key: str = field(repr=False)


class AccessRefused(ValueError):
    """The address or the key is missing or impossible, or cannot be read."""


def read_access() -> Access:
    """Return the address and the key; raise `AccessRefused` where one is missing."""
    kept = _read_config(config_file())
    address = os.environ.get(BASE_URL_VARIABLE) or kept.get("base_url")
    key = os.environ.get(API_KEY_VARIABLE) or kept.get("api_key")
    if not key or not address:
        raise AccessRefused(
            f"set {API_KEY_VARIABLE} and {BASE_URL_VARIABLE}, or write api_key and base_url into "
            f"{config_file()}"
        )
    return Access(address, key)


@contextmanager
def reported() -> Iterator[None]:
    """End the program with the reason where an argument or a setting is wrong, or a call fails.

    It ends without one where nothing reads its output any more, as behind `| head -1`.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes once more at its end
        raise SystemExit(ExitCode.DONE) from None
    except AccessRefused as error:
        complain("settings", str(error), as_json=False)
        raise SystemExit(ExitCode.SETTINGS) from None
    except (OSError, ValueError) as error:
        complain("usage", str(error), as_json=False)
        raise SystemExit(ExitCode.USAGE) from None
    except MeetcoreError as error:
        complain(error.code if isinstance(error, ApiError) else "no_answer", str(error), as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


@contextmanager
def customer_client(access: Access | None = None) -> Iterator[Client]:
    """Yield a client of the service, by what `read_access` finds; end the program where none answers."""
    access = access or read_access()
    try:
        opened = Client(access.base_url, access.api_key)
    except ValueError as error:
        raise AccessRefused(str(error)) from None
    try:
        with opened as client:
            yield client
    except ConnectionFailed as error:
        where = f"{BASE_URL_VARIABLE}, or base_url in {config_file()}, names another address"
        complain("no_answer", f"{access.base_url} does not answer: {error}; {where}", as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


def _read_config(file: Path) -> Mapping[str, str]:
    """Return the texts of the file, if it is there and for its owner alone."""
    if not file.exists():
        return {}
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise AccessRefused(f"{file} has an API key and others may read it: chmod 600 {file}")
    try:
        return {
            name: value
            for name, value in tomllib.loads(file.read_text("utf-8")).items()
            if isinstance(value, str)
        }
    except tomllib.TOMLDecodeError as error:
        raise AccessRefused(f"{file}: {error}") from None


def api(
    method: str,
    path: str,
    *,
    data: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    all_: Annotated[bool, Parameter(name="--all", negative="")] = False,
    idempotency_key: str | None = None,
) -> None:
    """Call an operation of the API and print its answer as JSON.

    Parameters
    ----------
    method:
        GET, POST, PATCH or DELETE.
    path:
        The path below /api/v1 with its query, such as /meetings?status=scheduled.
    data:
        The body: JSON, @FILE, or - for standard input.
    all_:
        Every page of a list, by GET: one item in each line.
    idempotency_key:
        Names the intent; without one the retries of this command share a new key.
    """
    with reported():
        call = _call(method, path, data, idempotency_key)
        if all_ and call.method != "GET":
            raise ValueError("--all is for lists, which are read by GET")
        with customer_client() as client:
            if all_:
                for item in _items(client, call):
                    _print_line(item)
            elif text := client.send(call):
                _print_answer(text)


def _call(method: str, path: str, data: str | None, idempotency_key: str | None) -> Call[str]:
    """Describe a call; raise `ValueError` where it cannot be made."""
    verb = method.upper()
    if verb not in METHODS:
        raise ValueError(f"the method is one of {', '.join(METHODS)}, not {method}")
    parts = urlsplit(f"/{path.removeprefix('/')}".removeprefix(API_ROOT))
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = dict(pairs)
    if len(query) < len(pairs):
        raise ValueError("the query gives a name more than once, which the service refuses")
    if verb == "GET":
        if data is not None or idempotency_key is not None:
            raise ValueError("--data and --idempotency-key are for what changes something, not for GET")
        return read(parts.path, str, query)
    body = None if data is None else _json_object(data)
    return change(verb, parts.path, str, idempotency_key, body, query)


def _json_object(data: str) -> dict[str, object]:
    """Read the body; `ValueError` says what is wrong with it."""
    if data == "-":
        data = sys.stdin.read()
    elif data.startswith("@"):
        data = Path(data[1:]).read_text("utf-8")
    try:
        body = json.loads(data, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"--data is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ValueError("--data is a JSON object")  # noqa: TRY004  (the text is of that type)
    return body


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("--data gives a name more than once, which the service refuses")
    return found


def _print_answer(text: str) -> None:
    try:
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except json.JSONDecodeError:
        pass  # Markdown of notes
    sys.stdout.write(text + "\n")


def _print_line(item: object) -> None:
    sys.stdout.write(json.dumps(item, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _read_page(client: Client, call: Call[str]) -> Mapping[str, Any]:
    """Read a page of a list; raise `UnexpectedResponse` where the answer is none."""
    with suppress(json.JSONDecodeError):
        page = json.loads(client.send(call))
        if isinstance(page, dict) and isinstance(page.get("data"), list) and "next_cursor" in page:
            return page
    raise UnexpectedResponse(
        f"{call.path} answers no list: it is one record, or {BASE_URL_VARIABLE}, or base_url in "
        f"{config_file()}, names something else than the service"
    )


def _items(client: Client, call: Call[str]) -> Iterator[Any]:
    """Return what a list has, page by page."""
    cursor: str | None = None
    while True:
        at = call if cursor is None else evolve(call, query={**call.query, "cursor": cursor})
        page = _read_page(client, at)
        yield from page["data"]
        if page["next_cursor"] in (None, cursor):
            return
        cursor = page["next_cursor"]


@define
class EventFeed:
    """The events of an account since the feed was opened, each once, the oldest first.

    `GET /events` is asked for those of the last minute before the newest one, so that the clock of this
    machine does not matter and an event that was committed late is not passed over.
    """

    client: Client
    kinds: Sequence[str] = ()
    sleep: Callable[[float], object] = time.sleep
    _since: str | None = field(init=False, default=None)
    _seen: set[str] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        for kind in self.kinds:  # the service refuses one that it does not know, and lists those that it does
            self.client.send(read("/events", str, {"limit": "1", "type": kind}))
        newest = _read_page(self.client, read("/events", str, {"limit": MAX_PAGE}))
        self._remember(newest["data"])
        if newest["next_cursor"] is not None:  # a page is not always the whole of the last minute
            self._remember(self._list())

    def poll(self) -> list[Event]:
        """Return what is new."""
        listed = self._list()
        new = [event for event in reversed(listed) if event["id"] not in self._seen]
        self._remember(listed)
        return [event for event in new if not self.kinds or event["type"] in self.kinds]

    def _list(self) -> list[Event]:
        query = {"limit": MAX_PAGE, "from": self._since}
        return list(_items(self.client, read("/events", str, query)))

    def _remember(self, listed: Sequence[Event]) -> None:
        self._seen = {event["id"] for event in listed}
        if listed:
            newest = max(datetime.fromisoformat(event["created_at"]) for event in listed)
            self._since = (newest - OVERLAP).isoformat()

    def follow(self) -> Iterator[Event]:
        """Yield events as they come, until Ctrl-C. Those of a time in which polls fail come after it."""
        is_away = False
        while True:
            try:
                new = self.poll()
            except MeetcoreError as error:
                if not is_retryable(error):
                    raise
                if not is_away:
                    complain("no_answer", f"{error}; asking on until Ctrl-C", as_json=False)
                is_away, new = True, []
            else:
                is_away = False
            yield from new
            self.sleep(POLL_S)


@events.command
def tail(*, type_: Annotated[Repeated, Parameter(name="--type")] = ()) -> None:
    """Print each event as it comes, as JSON, one in each line.

    Parameters
    ----------
    type_:
        Only these, such as meeting.created.
    """
    with reported(), customer_client() as client:
        for event in EventFeed(client, type_).follow():
            _print_line(event)
