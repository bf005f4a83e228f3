"""The OpenAPI 3.1 document, derived from the table of operations and the classes that decode bodies.

Owns how an operation is described. Its refusals come from `refusals`, the events from
`openapi_events`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any

import msgspec

from meetcore.adapters.api.answers import STATUS, envelope_of
from meetcore.adapters.api.bodies import OneOfBody
from meetcore.adapters.api.example_events import EVENTS
from meetcore.adapters.api.example_records import EVENT_ID, IDS
from meetcore.adapters.api.operation import API_ROOT, Operation
from meetcore.adapters.api.paging import DEFAULT_LIMIT, MAX_LIMIT
from meetcore.adapters.api.schemas import schemas_of
from meetcore.adapters.http.error_examples import DETAILS, MESSAGES
from meetcore.adapters.http.example_days import moved_to
from meetcore.adapters.http.openapi_events import event_schemas, webhook_items
from meetcore.adapters.http.openapi_headers import HEADERS, headers_of
from meetcore.adapters.http.refusals import Refusal, error_schema, error_schema_name, refusals_of
from meetcore.adapters.http.texts import OVERVIEW, REASONS, SUCCESS, TAGS
from meetcore.domain.meetings.schedule import WIB

Json = dict[str, Any]

_SCHEMA = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
_SOME_TEXT: Json = {"type": "string", "minLength": 1}
_IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Names the intent. Repeating a request with the same key and body returns the first "
    "result; another body is refused. Remembered for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "order-4711",
}


def daily_document(table: Sequence[Operation], base_url: str) -> Callable[[datetime], bytes]:
    """Return a function from instant to document, built once a day (WIB) for the dates in examples."""

    @lru_cache(maxsize=1)
    def of_day(today: date) -> bytes:
        return openapi_document(table, base_url, today)

    return lambda now: of_day(now.astimezone(WIB).date())


def openapi_document(table: Sequence[Operation], base_url: str, today: date) -> bytes:
    """Build the document as JSON (rule 9/3).

    Args:
        base_url: where the service is reached.
        today: the day in WIB that examples are for.
    """
    paths: dict[str, Json] = {}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, base_url)
    tags = dict.fromkeys([*map(_tag, table), "events"])
    document = {
        "openapi": "3.1.0",
        "info": _info(base_url),
        "servers": [{"url": base_url + API_ROOT, "description": "This service"}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name, "description": TAGS[name]} for name in tags],
        "externalDocs": {"url": f"{base_url}/docs/errors", "description": "Every error code"},
        "paths": paths,
        "webhooks": webhook_items(),
        "components": _components(table, base_url),
    }
    return msgspec.json.encode(moved_to(today, document))


def _info(base_url: str) -> Json:
    return {
        "title": "meetcore",
        "version": "1.0.0",
        "summary": "Online meetings and meeting notes against prepaid credits.",
        "description": OVERVIEW.format(base_url=base_url),
        "license": {"name": "MIT", "identifier": "MIT"},
    }


def _components(table: Sequence[Operation], base_url: str) -> Json:
    scheme = {"type": "http", "scheme": "bearer", "description": "An API key; its scopes decide."}
    alone = {
        _response_name(refusal): _refusal([refusal], base_url)
        for operation in table
        for _, refusals in _by_status(operation)
        if len(refusals) == 1
        for refusal in refusals
    }
    return {
        "schemas": _schemas(table, base_url),
        "responses": dict(sorted(alone.items())),
        "headers": HEADERS,
        "securitySchemes": {"apiKey": scheme},
    }


def _tag(operation: Operation) -> str:
    return operation.path.split("/")[1]


def _operation(operation: Operation, base_url: str) -> Json:
    described: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": _description(operation),
        "tags": [_tag(operation)],
        "security": [{"apiKey": [scope.value]} for scope in operation.scopes] or [{"apiKey": []}],
        "parameters": [*_path_parameters(operation), *_other_parameters(operation)],
        "responses": _responses(operation, base_url),
    }
    if operation.body is not None:
        content: Json = {"schema": _body_schema(operation.body)}
        if operation.requests:
            content["examples"] = {name: {"value": value} for name, value in operation.requests.items()}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _body_schema(body: type | OneOfBody) -> Json:
    if not isinstance(body, OneOfBody):
        return {"$ref": _SCHEMA.format(name=body.__name__)}
    named = {tag: _SCHEMA.format(name=each.__name__) for tag, each in body.bodies.items()}
    return {
        "oneOf": [{"$ref": reference} for reference in named.values()],
        "discriminator": {"propertyName": body.tag, "mapping": named},
    }


def _description(operation: Operation) -> str:
    scopes = " or ".join(f"`{scope.value}`" for scope in operation.scopes)
    needs = f"Needs the scope {scopes}." if scopes else "Any valid key may call it."
    return f"{operation.about} {needs} Counts against the {operation.rate_class.value} quota."


def _path_parameters(operation: Operation) -> Iterator[Json]:
    for name in _PATH_PARAMETER.findall(operation.path):
        parameter: Json = {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _SOME_TEXT,
        }
        parameter["description"] = "A UUID; any other text is answered as an unknown id is."
        example = IDS.get(_tag(operation), {}).get(name)
        yield parameter | ({"example": example} if example else {})


def _other_parameters(operation: Operation) -> Iterator[Json]:
    if operation.is_mutating:
        yield _IDEMPOTENCY_KEY
    if operation.listing is not None:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
        about = "The `next_cursor` of the page before; opaque."
        yield {"name": "limit", "in": "query", "description": "How many at most.", "schema": limit}
        yield {
            "name": "cursor",
            "in": "query",
            "description": about,
            "schema": _SOME_TEXT,
        }
    own = operation.options if operation.listing is None else operation.listing.filters
    for name, each in own.items():
        about = f"{each.description} {each.in_url}".strip()
        yield {"name": name, "in": "query", "description": about, "schema": each.schema}


def _responses(operation: Operation, base_url: str) -> Json:
    responses: Json = {str(operation.success): _success(operation)}
    for status, refusals in _by_status(operation):
        if len(refusals) == 1:
            responses[str(status)] = {"$ref": f"#/components/responses/{_response_name(refusals[0])}"}
        else:
            responses[str(status)] = _refusal(refusals, base_url)
    return responses


def _success(operation: Operation) -> Json:
    success: Json = {
        "description": SUCCESS[operation.success],
        "headers": headers_of(operation.success, is_mutating=operation.is_mutating),
    }
    if operation.record is not None:
        content: Json = {"schema": {"$ref": _SCHEMA.format(name=operation.record.__name__)}}
        if operation.example is not None:
            content["example"] = operation.example
        success["content"] = {"application/json": content}
        if "format" in operation.options:
            success["content"]["text/markdown"] = {"schema": {"type": "string"}}
    if operation.links:
        success["links"] = {
            name: {"operationId": name, "parameters": dict(parameters)}
            for name, parameters in operation.links.items()
        }
    return success


def _by_status(operation: Operation) -> Iterator[tuple[int, list[Refusal]]]:
    for status, refusals in groupby(refusals_of(operation), lambda each: each.status):
        yield status, list(refusals)


def _response_name(refusal: Refusal) -> str:
    special = {413: "PayloadTooLarge", 415: "UnsupportedMediaType"}
    return special.get(refusal.status) or error_schema_name(refusal.code).removesuffix("Error")


def _refusal(refusals: Sequence[Refusal], base_url: str) -> Json:
    status = refusals[0].status
    codes = [refusal.code for refusal in refusals]
    schemas = [{"$ref": _SCHEMA.format(name=error_schema_name(code))} for code in codes]
    examples = {code: {"value": _error_example(status, code, base_url)} for code in codes}
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {
        "description": f"{REASONS[status]} ({', '.join(f'`{code}`' for code in codes)}).",
        "headers": headers_of(status, is_mutating=False),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def _error_example(status: int, code: str, base_url: str) -> Json:
    message, details = MESSAGES[code], DETAILS.get(code, {})
    if status in (413, 415):
        name, problem = _FORM_PROBLEMS[status]
        message, details = (
            f"The request is not valid: see details.fields ({name}).",
            {"fields": {name: [problem]}},
        )
    return envelope_of(code, message, base_url, EVENT_ID, details)


_FORM_PROBLEMS = {
    413: ("body", "must not be larger than 64 KiB"),
    415: ("Content-Type", "must be application/json"),
}


def _schemas(table: Sequence[Operation], base_url: str) -> Json:
    given = [operation.body for operation in table if operation.body is not None]
    bodies = [
        each for body in given for each in (body.bodies.values() if isinstance(body, OneOfBody) else [body])
    ]
    shown = [operation.record for operation in table if operation.record is not None]
    sent = [event.record for event in EVENTS.values()]
    schemas = schemas_of(_SCHEMA, bodies=bodies, records=dict.fromkeys([*shown, *sent]))
    codes = [code for code in STATUS if any(_answers(operation, code) for operation in table)]
    errors = {error_schema_name(code): error_schema(code, base_url) for code in codes}
    return schemas | event_schemas() | errors


def _answers(operation: Operation, code: str) -> bool:
    return any(refusal.code == code for refusal in refusals_of(operation))
