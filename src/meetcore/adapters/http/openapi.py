"""The OpenAPI 3.1 document, derived from the table of operations and the classes that decode bodies."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from meetcore.adapters.http import records
from meetcore.adapters.http.answers import STATUS
from meetcore.adapters.http.bodies import Choice
from meetcore.adapters.http.calls import API_ROOT, Operation
from meetcore.adapters.http.paging import DEFAULT_LIMIT, MAX_LIMIT

__all__ = ["openapi_document"]

Json = dict[str, Any]

_REF = "#/components/schemas/{name}"
_REASONS = {
    400: "A field breaks its rule; details.fields names every problem",
    401: "The key is missing, wrong, revoked or expired",
    403: "The key lacks a scope",
    404: "Nothing there that the key's account may see",
    405: "The path does not know this method",
    409: "A record is in the way; details.id names it",
    410: "It was there and is gone for good",
    413: "The body is larger than 64 KiB",
    415: "The body is not declared as application/json",
    422: "Well-formed, but it cannot be carried out",
    429: "Too many requests in this minute",
    500: "A fault at the service",
    502: "The video provider refused or did not answer",
    503: "Temporarily unavailable",
}
_RATE_HEADERS: Mapping[str, tuple[str, str]] = {
    "X-RateLimit-Limit": ("integer", "Requests that this window admits"),
    "X-RateLimit-Remaining": ("integer", "Requests that are left in it"),
    "X-RateLimit-Reset": ("integer", "Unix time of the start of the next window"),
    "RateLimit-Policy": ("string", "The same quota as the IETF draft tells it"),
    "RateLimit": ("string", "What is left and for how many seconds, as the IETF draft tells it"),
    "X-Request-Id": ("string", "Names this request to support"),
}
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
_PATH_SCHEMA = {"type": "string", "minLength": 1}
_RETRY_AFTER = ("integer", "Whole seconds to wait")
_ALWAYS = (405, 503)


def openapi_document(table: Sequence[Operation], base_url: str) -> bytes:
    """The document as JSON.

    Args:
        table: the operations to describe.
        base_url: where the service is reached.
    """
    paths: dict[str, Json] = {}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "meetcore",
            "version": "1.0.0",
            "description": "Online meetings and meeting notes against prepaid credits.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": base_url + API_ROOT}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name} for name in dict.fromkeys(_tag(each) for each in table)],
        "paths": paths,
        "components": {
            "schemas": _schemas(table),
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key; its scopes decide.",
                }
            },
        },
    }
    return msgspec.json.encode(document)


def _tag(operation: Operation) -> str:
    return operation.path.split("/")[1]


def _operation(operation: Operation) -> Json:
    told: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": _description(operation),
        "tags": [_tag(operation)],
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.body is not None:
        schema = _body_schema(operation.body)
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return told


def _body_schema(body: type | Choice) -> Json:
    if not isinstance(body, Choice):
        return {"$ref": _REF.format(name=body.__name__)}
    named = {tag: _REF.format(name=each.__name__) for tag, each in body.bodies.items()}
    return {
        "oneOf": [{"$ref": reference} for reference in named.values()],
        "discriminator": {"propertyName": body.tag, "mapping": named},
    }


def _description(operation: Operation) -> str:
    scopes = " or ".join(f"`{scope.value}`" for scope in operation.scopes)
    needs = f"Needs the scope {scopes}." if scopes else "Any valid key may call it."
    return f"{operation.summary}. {needs} Counts against the {operation.rate_class.value} quota."


def _parameters(operation: Operation) -> list[Json]:
    found: list[Json] = []
    for name in _PATH_PARAMETER.findall(operation.path):
        found.append({"name": name, "in": "path", "required": True, "schema": _PATH_SCHEMA})
    if operation.is_mutating:
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "Repeating a request with the same key and body returns the first result.",
                "schema": schema,
            }
        )
    if operation.listing is not None:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
        found += [
            {"name": "limit", "in": "query", "schema": limit},
            {"name": "cursor", "in": "query", "description": "next_cursor", "schema": {"type": "string"}},
        ]
        found += [
            {"name": name, "in": "query", "description": each.description, "schema": each.schema}
            for name, each in operation.listing.filters.items()
        ]
    return found


def _responses(operation: Operation) -> Json:
    success: Json = {"description": "Done", "headers": _headers(_RATE_HEADERS)}
    if operation.success != 204:
        schema = {"$ref": _REF.format(name=operation.response)}
        success["content"] = {"application/json": {"schema": schema}}
    if operation.success == 201:
        success["headers"]["Location"] = _header("string", "Where the record is")
    if operation.is_mutating:
        success["headers"]["Idempotent-Replayed"] = _header("string", "true when an earlier request made it")
    statuses = set(operation.errors) | set(_ALWAYS)
    if operation.body is not None:
        statuses |= {413, 415}
    if operation.is_mutating:
        statuses |= {400, 422}
    return {str(operation.success): success} | {str(each): _refusal(each) for each in sorted(statuses)}


def _refusal(status: int) -> Json:
    codes = [code for code, known in STATUS.items() if known == status] or ["invalid_request"]
    headers = _headers(_RATE_HEADERS)
    if status in (429, 503):
        headers["Retry-After"] = _header(*_RETRY_AFTER)
    return {
        "description": f"{_REASONS[status]} ({', '.join(codes)})",
        "headers": headers,
        "content": {"application/json": {"schema": {"$ref": _REF.format(name="ErrorEnvelope")}}},
    }


def _headers(named: Mapping[str, tuple[str, str]]) -> Json:
    return {name: _header(kind, text) for name, (kind, text) in named.items()}


def _header(kind: str, text: str) -> Json:
    return {"description": text, "schema": {"type": kind}}


def _schemas(table: Sequence[Operation]) -> Json:
    given = [operation.body for operation in table if operation.body is not None]
    bodies = [
        each for body in given for each in (body.bodies.values() if isinstance(body, Choice) else [body])
    ]
    _, schemas = msgspec.json.schema_components([*bodies, *records.ALL], ref_template=_REF)
    for schema in schemas.values():
        if schema.get("type") == "object" and "properties" in schema:
            # A misspelt field is refused, and a record has exactly its fields.
            schema["additionalProperties"] = False
    return dict(schemas)
