"""The playground: requests to the API, sent from the dashboard with a key that lasts an hour.

A request goes to the API of this process and is authenticated, counted, checked and logged like any other;
its path comes from the table of operations. The text of the key is in a cookie alone, which no script reads.
"""

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from attrs import field, frozen
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp

from meetcore.adapters.api.examples import curl_command
from meetcore.adapters.api.http_common import MAX_BODY_BYTES
from meetcore.adapters.api.operation import API_ROOT, Operation
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.api.paging import MAX_LIMIT
from meetcore.adapters.web.forms import FORM
from meetcore.adapters.web.visit import Page, Visit
from meetcore.domain.errors import require_record
from meetcore.domain.members.roles import Action
from meetcore.domain.requests.keys import PLAYGROUND_LASTS, ApiKey


@frozen
class ApiCall:
    """A request to be sent. `path` is not percent-encoded; `headers` may hold a key."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def url(self) -> str:
        """The address below the service's own."""
        return quote(self.path) + (f"?{urlencode(self.query)}" if self.query else "")


@frozen
class ApiAnswer:
    """An answer, complete."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


async def call_api(api: ASGIApp, call: ApiCall) -> ApiAnswer:
    """Send a request to an ASGI application, and return the answer once it is whole."""
    given = {"host": "localhost", "content-length": str(len(call.body))} | dict(call.headers)
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": call.method, "path": call.path, "raw_path": quote(call.path).encode(), "root_path": "",
        "query_string": urlencode(call.query).encode(), "client": None, "server": None,
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    sent: list[MutableMapping[str, Any]] = []
    parts = iter([{"type": "http.request", "body": call.body, "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await api(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return ApiAnswer(sent[0]["status"], Headers(raw=list(sent[0]["headers"])), body)


ROOT: Final = "/dashboard/playground"
_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
_FIRST_REFUSAL: Final = 400
_TOO_MANY: Final = 429
_FIRST_FAULT: Final = 500
_MAX_SHOWN: Final = 100_000
_KEY_FIELD: Final = "idempotency_key"
_BODY_FIELD: Final = "body"
_SHOWN_HEADERS: Final = (
    "Location", "Idempotent-Replayed", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining",
    "X-RateLimit-Reset", "Content-Type",
)  # fmt: skip


@frozen
class _Field:
    """A parameter of a request; with `choices`, one of these."""

    name: str
    is_in_path: bool
    about: str
    choices: Sequence[tuple[str, str]]


@frozen
class _Sent:
    """A request that was sent, as the page shows it."""

    status: int
    mark: str
    took_ms: int
    request_id: str
    headers: Sequence[tuple[str, str]]
    body: str
    is_cut: bool
    curl: str
    further: Sequence[tuple[str, str]]


@Page("GET", ROOT, Action.MANAGE_KEYS)
async def list_operations(visit: Visit) -> Response:
    """List the operations that the member's key may call."""
    scopes = visit.use.playground.scopes(visit.signed_in)
    return visit.page(
        "playground.html",
        operations=[
            one for one in OPERATIONS if not one.scopes or any(each in scopes for each in one.scopes)
        ],
        is_sandbox=visit.use.playground.is_sandbox,
    )


@Page("GET", f"{ROOT}/{{operation}}", Action.MANAGE_KEYS)
async def show_operation(visit: Visit) -> Response:
    """Show the form of an operation; the address may fill in its fields."""
    return await _show(visit, await _find_key(visit))


@Page("POST", f"{ROOT}/{{operation}}/key", Action.MANAGE_KEYS, needs_fresh=True)
async def make_key_and_send(visit: Visit) -> Response:
    """Make a key, keep it in its cookie and send the request with it."""
    if errors := _errors(visit):
        return await _show(visit, None, errors)
    minted = await visit.use.playground.make_key(visit.signed_in, visit.client_address)
    answer = await _show(visit, minted.key, sent=await _send(visit, minted.text))
    visit.cookies.set(
        answer, visit.cookies.playground, f"{minted.key.id}.{minted.text}", PLAYGROUND_LASTS, path=ROOT
    )
    return answer


@Page("POST", f"{ROOT}/{{operation}}", Action.MANAGE_KEYS)
async def send_request(visit: Visit) -> Response:
    """Send the request with the key of the cookie."""
    key, errors = await _find_key(visit), _errors(visit)
    if key is None:
        errors |= {FORM: visit.text("The key of the playground has ended. Nothing was sent.")}
    if errors:
        return await _show(visit, key, errors)
    return await _show(visit, key, sent=await _send(visit, _cookie(visit)[1]))


def _operation(visit: Visit) -> Operation:
    return require_record(_BY_NAME.get(visit.request.path_params["operation"]), "operation")


def _cookie(visit: Visit) -> tuple[str, str]:
    """Return the id and the text of the key in the cookie; empty without one."""
    id_, _dot, text = (visit.cookies.read(visit.request, visit.cookies.playground) or "").partition(".")
    return id_, text


async def _find_key(visit: Visit) -> ApiKey | None:
    """Return the member's key, if it works and this browser has it: the cookie may be another member's."""
    key = await visit.use.playground.find_key(visit.signed_in)
    return key if key is not None and str(key.id) == _cookie(visit)[0] else None


def _errors(visit: Visit) -> dict[str, str]:
    """Return the problems of the ids in the path; all others are the API's to find."""
    return {
        field.name: visit.text("Write an id.")
        for field in _fields(_operation(visit))
        if field.is_in_path and ("/" in (text := visit.form.get(field.name, "").strip()) or not text)
    }


async def _send(visit: Visit, key: str) -> _Sent:
    operation, begun = _operation(visit), visit.use.runtime.now()
    call = _call(operation, visit.form, key)
    assert visit.area.api is not None
    answer = await call_api(visit.area.api, call)
    took_ms = round((visit.use.runtime.now() - begun).total_seconds() * 1000)
    return _shown(visit, operation, call, answer, took_ms)


def _call(operation: Operation, form: Mapping[str, str], key: str) -> ApiCall:
    """Build the request: ids fill the path of the operation, empty parameters are left out."""
    given = [(field, form.get(field.name, "").strip()) for field in _fields(operation)]
    path = API_ROOT + operation.path.format_map({each.name: text for each, text in given})
    query = {each.name: text for each, text in given if text and not each.is_in_path}
    headers, body = {"authorization": f"Bearer {key}"}, b""
    if operation.is_mutating and (intent := form.get(_KEY_FIELD, "").strip()):
        headers["idempotency-key"] = intent
    if operation.body is not None:
        headers["content-type"] = "application/json"
        body = form.get(_BODY_FIELD, "").encode()
    return ApiCall(operation.method, path, query, headers, body)


def _shown(visit: Visit, operation: Operation, call: ApiCall, answer: ApiAnswer, took_ms: int) -> _Sent:
    text = _pretty(answer.body)
    return _Sent(
        answer.status,
        "good" if answer.status < _FIRST_REFUSAL else "warn" if answer.status < _FIRST_FAULT else "bad",
        took_ms,
        answer.headers["x-request-id"],
        [(name, answer.headers[name]) for name in _SHOWN_HEADERS if name in answer.headers],
        text[:_MAX_SHOWN],
        len(text) > _MAX_SHOWN,
        curl_command(
            call.method, visit.use.members.base_url + call.url, call.body.decode(),
            with_idempotency_key="idempotency-key" in call.headers,
        ),
        list(_further(operation, answer)),
    )  # fmt: skip


def _pretty(body: bytes) -> str:
    """Lay JSON out; leave any other text as it is."""
    text = body.decode()
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except ValueError:
        return text


def _further(operation: Operation, answer: ApiAnswer) -> Iterator[tuple[str, str]]:
    """Yield the operations on the record of an answer, with its id in their address."""
    if answer.status != operation.success or not operation.links:
        return
    record = json.loads(answer.body)
    for name, parameters in operation.links.items():
        fields = {each: record.get(source.rpartition("/")[2]) for each, source in parameters.items()}
        query = "&".join(f"{each}={value}" for each, value in fields.items())
        yield f"{ROOT}/{name}?{query}", _BY_NAME[name].summary


def _fields(operation: Operation) -> Iterator[_Field]:
    for part in operation.path.split("/"):
        if part.startswith("{"):
            yield _Field(part[1:-1], True, "", ())
    if operation.listing is not None:
        yield _Field("limit", False, f"1 to {MAX_LIMIT}.", ())
        yield _Field("cursor", False, "The next_cursor of the page before.", ())
    for name, each in (operation.options if operation.listing is None else operation.listing.filters).items():
        is_flag, values = each.schema.get("type") == "boolean", each.schema.get("enum")
        texts = ["true", "false"] if is_flag else values if isinstance(values, list) else []
        choices = [("", "\N{EN DASH}"), *((text, text) for text in texts)] if texts else []
        yield _Field(name, False, each.description.replace("`", ""), choices)


async def _show(
    visit: Visit, key: ApiKey | None, errors: Mapping[str, str] | None = None, sent: _Sent | None = None
) -> Response:
    operation = _operation(visit)
    example = next(iter(operation.requests.values()), {}) if operation.body is not None else None
    values = {field.name: visit.form.get(field.name, visit.query(field.name)) for field in _fields(operation)}
    path = f"{ROOT}/{operation.name}"
    scopes = visit.use.playground.scopes(visit.signed_in)
    return visit.form_page(
        "playground_request.html",
        errors or {},
        operation=operation,
        path=path,
        action=path if key is not None else f"{path}/key",
        key=key,
        is_allowed=not operation.scopes or any(each in scopes for each in operation.scopes),
        is_sandbox=visit.use.playground.is_sandbox,
        fields=list(_fields(operation)),
        values=values,
        body=None
        if example is None
        else visit.form.get(_BODY_FIELD, json.dumps(example, ensure_ascii=False, indent=2)),
        max_body=MAX_BODY_BYTES,
        intent=_intent(visit, sent) if operation.is_mutating else "",
        sent=sent,
    )


def _intent(visit: Visit, sent: _Sent | None) -> str:
    """Return the idempotency key of the next request: a new one, unless the last is to be sent again."""
    is_final = sent is not None and sent.status < _FIRST_FAULT and sent.status != _TOO_MANY
    return (not is_final and visit.form.get(_KEY_FIELD)) or visit.new_form_key()
