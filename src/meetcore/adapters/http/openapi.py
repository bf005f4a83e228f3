"""The OpenAPI 3.1 document, derived from the table of operations and the classes that decode bodies.

Dates in examples move with the calendar, so that an example works on the day it is used: a meeting in an
example is as far ahead of today as it is of the day that the examples were written for.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any

import msgspec

from meetcore.adapters.api import answers, wire_types
from meetcore.adapters.api.bodies import OneOfBody
from meetcore.adapters.api.examples import EVENT_ID, EVENTS, IDS
from meetcore.adapters.api.operation import API_ROOT, Operation
from meetcore.adapters.api.paging import DEFAULT_LIMIT, MAX_LIMIT
from meetcore.adapters.http import error_pages, openapi_parts
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
}


def daily_document(
    table: Sequence[Operation], base_url: str, contact: str = ""
) -> Callable[[datetime], bytes]:
    """Return a function from instant to document, built once a day (WIB) for the dates in examples."""

    @lru_cache(maxsize=1)
    def of_day(today: date) -> bytes:
        return openapi_document(table, base_url, today, contact)

    return lambda now: of_day(now.astimezone(WIB).date())


def openapi_document(table: Sequence[Operation], base_url: str, today: date, contact: str = "") -> bytes:
    """Build the document as JSON (rule 9/3), with examples for a day in WIB.

    `contact` is an e-mail or `https://` address for questions, or empty.
    """
    paths: dict[str, Json] = {}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, base_url)
    tags = dict.fromkeys([*map(_tag, table), "events"])
    document = {
        "openapi": "3.1.0",
        "info": _info(base_url, contact),
        "servers": [{"url": base_url + API_ROOT, "description": "This service"}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name, "description": openapi_parts.TAGS[name]} for name in tags],
        "externalDocs": {"url": f"{base_url}/docs/errors", "description": "Every error code"},
        "paths": paths,
        "webhooks": openapi_parts.webhook_items(),
        "components": _components(table, base_url),
    }
    return msgspec.json.encode(moved_to(today, document))


def _info(base_url: str, contact: str) -> Json:
    info = {
        "title": "meetcore",
        "version": "1.0.0",
        "summary": "Online meetings and meeting notes against prepaid credits.",
        "description": openapi_parts.OVERVIEW.format(base_url=base_url),
        "license": {"name": "MIT", "identifier": "MIT"},
    }
    if contact:
        info["contact"] = {"url" if contact.startswith("https:") else "email": contact}
    return info


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
        "headers": openapi_parts.HEADERS,
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
        parameter: Json = {"name": name, "in": "path", "required": True, "schema": _SOME_TEXT}
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
        yield {"name": "cursor", "in": "query", "description": about, "schema": _SOME_TEXT}
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
        "description": openapi_parts.SUCCESS[operation.success],
        "headers": openapi_parts.headers_of(operation.success, is_mutating=operation.is_mutating),
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


def _by_status(operation: Operation) -> Iterator[tuple[int, list[error_pages.Refusal]]]:
    for status, refusals in groupby(error_pages.refusals_of(operation), lambda each: each.status):
        yield status, list(refusals)


def _response_name(refusal: error_pages.Refusal) -> str:
    special = {413: "PayloadTooLarge", 415: "UnsupportedMediaType"}
    return special.get(refusal.status) or error_pages.error_schema_name(refusal.code).removesuffix("Error")


def _refusal(refusals: Sequence[error_pages.Refusal], base_url: str) -> Json:
    status = refusals[0].status
    codes = [refusal.code for refusal in refusals]
    schemas = [{"$ref": _SCHEMA.format(name=error_pages.error_schema_name(code))} for code in codes]
    examples = {code: {"value": _error_example(status, code, base_url)} for code in codes}
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {
        "description": f"{openapi_parts.REASONS[status]} ({', '.join(f'`{code}`' for code in codes)}).",
        "headers": openapi_parts.headers_of(status, is_mutating=False),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def _error_example(status: int, code: str, base_url: str) -> Json:
    message, details = error_pages.ERROR_PAGES[code].message, error_pages.ERROR_PAGES[code].example
    if status in (413, 415):
        name, problem = _FORM_PROBLEMS[status]
        message, details = (
            f"The request is not valid: see details.fields ({name}).",
            {"fields": {name: [problem]}},
        )
    return answers.envelope_of(code, message, base_url, EVENT_ID, details)


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
    schemas = wire_types.schemas_of(_SCHEMA, bodies=bodies, records=dict.fromkeys([*shown, *sent]))
    codes = [code for code in answers.STATUS if any(_answers(operation, code) for operation in table)]
    errors = {error_pages.error_schema_name(code): error_pages.error_schema(code, base_url) for code in codes}
    return openapi_parts.with_named_parts(schemas | openapi_parts.event_schemas() | errors)


def _answers(operation: Operation, code: str) -> bool:
    return any(refusal.code == code for refusal in error_pages.refusals_of(operation))


_WRITTEN_FOR = date(2026, 11, 21)
_DAY = re.compile(r"(?<![0-9a-f-])[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9a-f-])", re.ASCII)


def moved_to(today: date, document: Any) -> Any:
    """Return a part of the OpenAPI document with the dates of all examples moved near `today`."""
    match document:
        case dict():
            return {
                name: _moved(each, today - _WRITTEN_FOR)
                if name in ("example", "examples")
                else moved_to(today, each)
                for name, each in document.items()
            }
        case list():
            return [moved_to(today, each) for each in document]
        case _:
            return document


def _moved(example: Any, by: timedelta) -> Any:
    def moved(part: Any) -> Any:
        return (
            _DAY.sub(lambda day: str(date.fromisoformat(day[0]) + by), part)
            if isinstance(part, str)
            else part
        )

    return wire_types.rewritten(example, moved)
