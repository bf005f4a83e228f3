"""The error tree: its codes are a public contract, its details the caller's business and nobody else's."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from meetcore.domain import errors
from meetcore.domain.errors import (
    Conflict,
    CreditCapExceeded,
    DomainError,
    Gone,
    HostUnresolved,
    IdempotencyKeyReused,
    InsufficientCredits,
    InsufficientScope,
    InternalError,
    InvalidApiKey,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServiceUnavailable,
    Unprocessable,
    UpstreamError,
)

# Spec part 7, and whether the work itself decided: what is final is remembered under an idempotency key.
CODES: dict[type[DomainError], tuple[str, bool]] = {
    InvalidRequest: ("invalid_request", False),
    InvalidApiKey: ("invalid_api_key", False),
    InsufficientScope: ("insufficient_scope", False),
    NotFound: ("not_found", True),
    Conflict: ("conflict", True),
    Gone: ("gone", True),
    Unprocessable: ("unprocessable_entity", True),
    HostUnresolved: ("unprocessable_entity", False),
    IdempotencyKeyReused: ("idempotency_key_reused", True),
    InsufficientCredits: ("insufficient_credits", True),
    CreditCapExceeded: ("credit_cap_exceeded", True),
    RateLimited: ("rate_limited", False),
    InternalError: ("internal_error", False),
    UpstreamError: ("upstream_error", False),
    ServiceUnavailable: ("service_unavailable", False),
}
MIDNIGHT = datetime(2026, 12, 1, 17, tzinfo=UTC)
ONE_OF_EACH = (
    InvalidRequest({"title": ["is missing"]}),
    InvalidApiKey("Wrong."),
    InsufficientScope(("meetings:write",)),
    NotFound("No meeting with this id."),
    Conflict("Registered already.", 7),
    Gone("Past its retention."),
    Unprocessable("It would start in the past."),
    HostUnresolved("The name did not resolve."),
    IdempotencyKeyReused("Another request has this key."),
    InsufficientCredits(10, 3),
    CreditCapExceeded(100, 95, 10, MIDNIGHT),
    RateLimited(20, 60, 13),
    InternalError("A fault."),
    UpstreamError("The provider refused."),
    ServiceUnavailable("No host is free.", 60),
)


def descendants(parent: type[DomainError]) -> Iterator[type[DomainError]]:
    for child in parent.__subclasses__():
        yield child
        yield from descendants(child)


@pytest.mark.spec("9/2")
def test_every_code_of_the_spec_is_there_and_no_other() -> None:
    ours = {kind for kind in descendants(DomainError) if kind.__module__ == errors.__name__}
    assert {kind: (kind.code, kind.is_final) for kind in ours} == CODES
    assert {kind.code for kind in descendants(DomainError)} == {code for code, _ in CODES.values()}


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    drawn = re.findall(r"^    ([│ ]*)[├└]── (\w+) +(\S+)", errors.__doc__ or "", re.MULTILINE)
    parents: dict[int, type[DomainError]] = {-1: DomainError}
    told = []
    for indent, name, code in drawn:
        kind = getattr(errors, name)
        depth = len(indent) // 4
        assert kind.__base__ is parents[depth - 1]
        assert kind.code == code or code.startswith("(")
        parents[depth] = kind
        told.append(kind)
    assert set(told) == set(CODES)
    assert len(told) == len(CODES)


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_an_error_says_its_message_and_cannot_be_told_otherwise(error: DomainError) -> None:
    assert error.message == str(error) != ""
    with pytest.raises(TypeError):
        cast("dict[str, object]", error.details)["added"] = 1


def test_one_of_each_is_all_of_them() -> None:
    assert {type(error) for error in ONE_OF_EACH} == set(CODES)


def test_details_are_a_copy_of_what_was_given() -> None:
    fields = {"title": ["is missing"]}
    details: dict[str, object] = {"id": 1}
    invalid, refused = InvalidRequest(fields), Unprocessable("No.", details)
    fields["title"].append("later")
    fields["date"] = ["later"]
    details.clear()
    assert invalid.details == {"fields": {"title": ["is missing"]}}
    assert refused.details == {"id": 1}


def test_details_may_be_absent() -> None:
    assert NotFound("No meeting with this id.").details == {}


def test_an_invalid_request_names_every_field() -> None:
    error = InvalidRequest({"title": ["too long"], "date": ["missing", "odd"]})
    assert error.details == {"fields": {"title": ["too long"], "date": ["missing", "odd"]}}
    assert "date, title" in error.message
    assert InvalidRequest({"title": []}, "Not JSON.").message == "Not JSON."


@pytest.mark.parametrize(
    ("error", "details"),
    [
        (InsufficientScope(("meetings:read", "meetings:write")),
         {"required": ["meetings:read", "meetings:write"]}),
        (Conflict("Registered already.", 7), {"id": "7"}),
        (InsufficientCredits(10, -3), {"required": 10, "available": -3}),
        (CreditCapExceeded(100, 95, 10, MIDNIGHT),
         {"cap": 100, "spent": 95, "required": 10, "resets_at": "2026-12-01T17:00:00Z"}),
        (RateLimited(20, 60, 13), {"limit": 20, "window_seconds": 60}),
        (ServiceUnavailable("No host is free.", 60, {"why": "busy"}), {"why": "busy"}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_details_hold_what_the_contract_says(error: DomainError, details: dict[str, Any]) -> None:
    assert error.details == details


@pytest.mark.parametrize("error", [RateLimited(20, 60, 13), ServiceUnavailable("No host is free.", 13)])
def test_what_may_be_tried_again_says_when(error: RateLimited | ServiceUnavailable) -> None:
    assert error.retry_after_s == 13


def test_everything_public_is_listed() -> None:
    assert set(errors.__all__) == {"DomainError"} | {kind.__name__ for kind in CODES}
