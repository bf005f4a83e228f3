"""The rules for every answer of the API, to any request (spec 4, 7, 8 and 9).

Held against each answer of each test: the rate headers, the request id, the error envelope with a code
of spec 7 at its status, and, where the OpenAPI document knows the operation, that the status is
documented and the body fits its schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
"""The codes that spec 7 names, at the status of each."""
DOCUMENTED_HEADERS = {"location", "idempotent-replayed", "retry-after", "www-authenticate", "allow"}
"""Headers that are there in some answers only: where they are, the document says so."""
ENVELOPE = {"code", "message", "docs_url", "request_id", "details"}


class Contract:
    """Checks answers against the document, and keeps the request ids that went out."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.seen: set[tuple[str, str]] = set()
        """Operation id and status of every answer so far."""
        self._ids: set[str] = set()
        self._paths = [
            (re.compile(API_ROOT + re.sub(r"\{\w+\}", "[^/]+", path)), item)
            for path, item in document["paths"].items()
        ]

    async def check(self, answer: httpx.Response) -> None:
        """Hold one answer against everything that is true of all; an httpx response hook."""
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
        """What a reference leads to, or the thing itself."""
        if "$ref" not in schema:
            return schema
        found: Any = self.document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return dict(found)

    def codes_of(self, method: str, path: str) -> set[tuple[int, str]]:
        """Every status and code that an operation documents."""
        found: set[tuple[int, str]] = set()
        for status, response in self.document["paths"][path][method]["responses"].items():
            if not status.startswith("2"):
                schema = self.resolved(response)["content"]["application/json"]["schema"]
                for each in schema.get("anyOf", [schema]):
                    error = self.resolved(each)["properties"]["error"]["properties"]
                    found |= {(int(status), code) for code in error["code"]["enum"]}
        return found

    def check_payload(self, headers: Mapping[str, str], payload: dict[str, Any]) -> None:
        """Check a webhook's payload against the documentation of its kind."""
        described = self.document["webhooks"][payload["type"]]["post"]
        problems = self.problems(described["requestBody"]["content"]["application/json"]["schema"], payload)
        assert not problems, problems
        assert {each["name"].lower() for each in described["parameters"]} <= {
            name.lower() for name in headers
        }

    def problems(self, schema: dict[str, Any], value: object) -> list[str]:
        """Where a value does not fit a schema of the document."""
        rooted = schema | {"components": self.document["components"]}
        validator = OAS31Validator(rooted, format_checker=oas31_format_checker)
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def check_envelope(answer: httpx.Response) -> None:
    """The envelope of spec 7, whole, and nothing beside it."""
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
