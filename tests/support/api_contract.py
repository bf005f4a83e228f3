"""Rules for every response of the API (spec 4, 7, 8 and 9).

Checked for each response of each test: rate headers, request id, error envelope with a code of spec 7 at its
status, and, for operations of the OpenAPI document, a documented status and a body that fits its schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

import httpx
from openapi_schema_validator import OAS31Validator, oas31_format_checker

API_ROOT = "/api/v1"
RATE_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
CODES = {
    400: {"invalid_request"},
    401: {"invalid_api_key"},
    403: {"insufficient_scope"},
    404: {"not_found"},
    405: {"invalid_request"},
    409: {"conflict"},
    410: {"gone"},
    413: {"invalid_request"},
    415: {"invalid_request"},
    422: {
        "unprocessable_entity",
        "idempotency_key_reused",
        "insufficient_credits",
        "credit_cap_exceeded",
    },
    429: {"rate_limited"},
    500: {"internal_error"},
    502: {"upstream_error"},
    503: {"service_unavailable"},
}
"""The codes of spec 7 at their statuses."""
DOCUMENTED_HEADERS = {"location", "idempotent-replayed", "retry-after", "www-authenticate", "allow"}
"""Optional headers, which the document must name."""
ENVELOPE = {"code", "message", "docs_url", "request_id", "details"}


class Contract:
    """Checks responses against the document, and keeps their request ids."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.seen: set[tuple[str, str]] = set()
        """Operation id and status of every response so far."""
        self._ids: set[str] = set()
        self._paths = [
            (re.compile(API_ROOT + re.sub(r"\{\w+\}", "[^/]+", path)), item)
            for path, item in document["paths"].items()
        ]

    @property
    def _open_schemas(self) -> dict[str, Any]:
        return {"components": {"schemas": self.document["components"]["schemas"]}}

    @cached_property
    def _closed_schemas(self) -> dict[str, Any]:
        return dict(closed(self._open_schemas))

    async def check(self, answer: httpx.Response) -> None:
        """Check one response; an httpx response hook."""
        await answer.aread()
        path = answer.request.url.path
        if not path.startswith(API_ROOT):
            return
        self._check_headers(answer)
        if answer.request.method == "HEAD":
            return  # a body is not sent
        if answer.is_error:
            check_envelope(answer)
        operation = self._operation(answer.request.method, path)
        if operation is not None:
            self.seen.add((operation["operationId"], str(answer.status_code)))
            self._check_body(operation, answer)

    def _check_headers(self, answer: httpx.Response) -> None:
        limit, left, reset = (int(answer.headers[name]) for name in RATE_HEADERS)
        assert 0 <= left <= limit
        assert reset % 60 == 0
        request_id = answer.headers["X-Request-Id"]
        assert UUID(request_id).version == 7
        assert request_id not in self._ids, "a request id was used twice"
        self._ids.add(request_id)
        if answer.status_code == 204:
            assert not answer.content
            assert not {"Content-Type", "Content-Length"} & set(answer.headers)
        else:
            known = ("application/json", "text/markdown; charset=utf-8")
            assert answer.headers["Content-Type"] in known[: None if answer.is_success else 1]
        # Retry-After is required only for a limit or an outage.
        assert ("Retry-After" in answer.headers) == (answer.status_code in (429, 503))

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        for pattern, item in self._paths:
            if pattern.fullmatch(path):
                # A method in small letters is another method.
                found: dict[str, Any] | None = item.get(method.lower()) if method.isupper() else None
                return found
        return None

    def _check_body(self, operation: dict[str, Any], answer: httpx.Response) -> None:
        status = str(answer.status_code)
        responses = operation["responses"]
        assert status in responses, f"{operation['operationId']} does not document {status}"
        documented = self.resolved(responses[status])
        assert ("content" in documented) == (answer.status_code != 204)
        if "content" in documented:
            media = answer.headers["Content-Type"].partition(";")[0]
            shown = answer.json() if media == "application/json" else answer.text
            problems = self.problems(documented["content"][media]["schema"], shown)
            assert not problems, problems
        for name, header in documented["headers"].items():
            if self.resolved(header)["required"]:
                assert name in answer.headers, f"{name} is documented for {status} and absent"
        undocumented = DOCUMENTED_HEADERS & set(answer.headers) - {
            name.lower() for name in documented["headers"]
        }
        assert not undocumented, f"{undocumented} not documented for {status}"

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Resolve a reference."""
        if "$ref" not in schema:
            return schema
        found: Any = self.document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return dict(found)

    def codes_of(self, method: str, path: str) -> set[tuple[int, str]]:
        """Return the documented statuses and codes of an operation."""
        found: set[tuple[int, str]] = set()
        for status, response in self.document["paths"][path][method]["responses"].items():
            if not status.startswith("2"):
                schema = self.resolved(response)["content"]["application/json"]["schema"]
                for each in schema.get("anyOf", [schema]):
                    error = self.resolved(self.resolved(each)["properties"]["error"])
                    code = self.resolved(error["properties"]["code"])
                    found |= {(int(status), each) for each in code["enum"]}
        return found

    def check_payload(self, headers: Mapping[str, str], payload: dict[str, Any]) -> None:
        """Check a webhook's payload against the documentation of its kind."""
        described = self.document["webhooks"][payload["type"]]["post"]
        problems = self.problems(described["requestBody"]["content"]["application/json"]["schema"], payload)
        assert not problems, problems
        assert {each["name"].lower() for each in described["parameters"]} <= {
            name.lower() for name in headers
        }

    def problems(self, schema: dict[str, Any], value: object, *, is_open: bool = False) -> list[str]:
        """Return the places where a value does not fit a schema of the document.

        Unless it `is_open`, answers have the documented fields and values only; a later release may add some.
        """
        rooted = schema | self._open_schemas if is_open else closed(schema) | self._closed_schemas
        validator = OAS31Validator(rooted, format_checker=oas31_format_checker)
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def closed(schema: Any) -> Any:
    """Return a schema that takes no field and no value which it does not name."""
    match schema:
        case {"anyOf": [{"$ref": pointer}, {"type": "string"}]}:
            return {"$ref": pointer}
        case dict():
            inner = {name: closed(each) for name, each in schema.items()}
            is_record = schema.get("type") == "object" and "properties" in schema
            return ({"additionalProperties": False} if is_record else {}) | inner
        case list():
            return [closed(each) for each in schema]
        case _:
            return schema


def check_envelope(answer: httpx.Response) -> None:
    """Check for exactly the envelope of spec 7."""
    body = answer.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == ENVELOPE
    assert error["code"] in CODES[answer.status_code], (answer.status_code, error["code"])
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["docs_url"].endswith(f"/docs/errors/{error['code']}")
    assert isinstance(error["details"], dict)
    if answer.headers.get("Idempotent-Replayed") is None:
        assert error["request_id"] == answer.headers["X-Request-Id"]
