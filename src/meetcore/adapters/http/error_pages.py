"""Each error code: its page, its place in the OpenAPI document, and the operations that answer with it.

The refusals of an operation follow from its declaration.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from meetcore.adapters.api import answers
from meetcore.adapters.api.operation import Operation

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_ID: Json = {"type": "string", "format": "uuid"}


@frozen(kw_only=True)
class ErrorPage:
    """A code as its page behind `error.docs_url`, docs/errors.md and the OpenAPI document describe it.

    `error_pages.toml` has them. `retry` says whether the same request may be sent again, `details` what
    `error.details` holds: the schemas of the fields that are in it `always`, and of those that are in it
    `sometimes`. `message` and `example` show a refusal.
    """

    meaning: str
    remedy: str
    retry: str
    details: str = "Empty."
    message: str
    example: Json = field(factory=dict)
    always: Json = field(factory=dict)
    sometimes: Json = field(factory=dict)


ERROR_PAGES: Final[Mapping[str, ErrorPage]] = {
    code: ErrorPage(**page)
    for code, page in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}


@frozen
class Refusal:
    """A code at a status."""

    status: int
    code: str


_ANY = ("invalid_request", "invalid_api_key", "rate_limited", "internal_error", "service_unavailable")
_TOO_LARGE, _NOT_JSON = Refusal(413, "invalid_request"), Refusal(415, "invalid_request")


def refusals_of(operation: Operation) -> list[Refusal]:
    """Return every refusal of an operation, by status; a wrong method belongs to none.

    They are those of rules 4.1/errors, 4.2/errors, 4.3/errors and 4.4/errors.
    """
    codes = {*_ANY, *operation.refusals, *_codes_of_its_form(operation)}
    found = [Refusal(answers.STATUS[code], code) for code in answers.STATUS if code in codes]
    if operation.reads_body:
        found += [_TOO_LARGE, _NOT_JSON]
    return sorted(found, key=lambda each: each.status)


def _codes_of_its_form(operation: Operation) -> Iterator[str]:
    if operation.scopes:
        yield "insufficient_scope"
    if "{" in operation.path:
        yield "not_found"
    if operation.is_mutating:
        yield "idempotency_key_reused"


def error_schema_name(code: str) -> str:
    """Return the name of a code's envelope among the schemas."""
    return "".join(word.capitalize() for word in code.removesuffix("_error").split("_")) + "Error"


def error_schema(code: str, base_url: str) -> Json:
    """Build the envelope of spec 7 with one code and its details."""
    page = f"{base_url}/docs/errors/{code}"
    stem = error_schema_name(code).removesuffix("Error")
    error = _object(
        f"{stem}Problem",
        {
            "code": {
                "title": f"{stem}Code",
                "type": "string",
                "enum": [code],
                "description": "Stable: branch on it.",
            },
            "message": _TEXT | {"description": "For people; may change at any time."},
            "docs_url": _TEXT | {"format": "uri", "description": "Its page.", "examples": [page]},
            "request_id": _ID | {"description": "What to quote to support."},
            "details": _details(f"{stem}Details", code),
        },
    )
    return _object(error_schema_name(code), {"error": error})


def _details(title: str, code: str) -> Json:
    page = ERROR_PAGES[code]
    return _object(title, page.always | page.sometimes, required=list(page.always))


def _object(title: str, properties: Json, required: list[str] | None = None) -> Json:
    wanted = list(properties) if required is None else required
    schema: Json = {"title": title, "type": "object", "properties": properties}
    return schema | ({"required": wanted} if wanted else {})
