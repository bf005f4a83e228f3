"""The error tree: codes, messages, and details are a public contract."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from meetcore.domain import errors
from meetcore.domain.errors import (
    ActionNotAllowed,
    Conflict,
    CreationsUsedUp,
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
    NoHostFree,
    NotFound,
    RateLimited,
    ServiceUnavailable,
    TooManyDownloads,
    Unprocessable,
    UpstreamError,
    own_copy,
    require_record,
)

# Spec part 7, and whether the work itself decided: what is final is remembered under an idempotency key.
CODES: dict[type[DomainError], tuple[str, bool]] = {
    InvalidRequest: ("invalid_request", False),
    InvalidApiKey: ("invalid_api_key", False),
    InsufficientScope: ("insufficient_scope", False),
    ActionNotAllowed: ("insufficient_scope", False),
    NotFound: ("not_found", True),
    Conflict: ("conflict", True),
    Gone: ("gone", True),
    Unprocessable: ("unprocessable_entity", True),
    HostUnresolved: ("unprocessable_entity", False),
    IdempotencyKeyReused: ("idempotency_key_reused", True),
    InsufficientCredits: ("insufficient_credits", True),
    CreditCapExceeded: ("credit_cap_exceeded", True),
    RateLimited: ("rate_limited", False),
    TooManyDownloads: ("rate_limited", False),
    InternalError: ("internal_error", False),
    UpstreamError: ("upstream_error", False),
    ServiceUnavailable: ("service_unavailable", False),
    NoHostFree: ("service_unavailable", False),
    CreationsUsedUp: ("service_unavailable", False),
}
MIDNIGHT = datetime(2026, 12, 1, 17, tzinfo=UTC)
# How each is made and what it then says.
ONE_OF_EACH: dict[type[DomainError], tuple[Callable[[], DomainError], str]] = {
    InvalidRequest: (
        lambda: InvalidRequest({"title": ["is missing"]}),
        "The request is not valid: see details.fields (title).",
    ),
    InvalidApiKey: (lambda: InvalidApiKey("Wrong."), "Wrong."),
    ActionNotAllowed: (lambda: ActionNotAllowed("viewer", "keys.manage"), "The role viewer may not do this."),
    InsufficientScope: (
        lambda: InsufficientScope(("meetings:read", "meetings:write")),
        "This key lacks the scope meetings:read or meetings:write. "
        "Scopes are fixed when a key is created: use another key.",
    ),
    NotFound: (lambda: NotFound("No meeting with this id."), "No meeting with this id."),
    Conflict: (lambda: Conflict("Registered already.", 7), "Registered already."),
    Gone: (lambda: Gone("Past its retention."), "Past its retention."),
    Unprocessable: (lambda: Unprocessable("It would start in the past."), "It would start in the past."),
    HostUnresolved: (lambda: HostUnresolved("It did not resolve."), "It did not resolve."),
    IdempotencyKeyReused: (lambda: IdempotencyKeyReused("Another request's."), "Another request's."),
    InsufficientCredits: (
        lambda: InsufficientCredits(10, 3),
        "This needs 10 credits and 3 are available. Top up and try again.",
    ),
    CreditCapExceeded: (
        lambda: CreditCapExceeded(100, 95, 10, MIDNIGHT),
        "This key may spend 100 credits a day and has spent or reserved 95; 10 more do not fit. "
        "The day ends at 2026-12-01T17:00:00Z.",
    ),
    RateLimited: (
        lambda: RateLimited(20, 60, 13),
        "More than 20 requests in this minute. Wait 13 s and try again.",
    ),
    TooManyDownloads: (
        lambda: TooManyDownloads("of this link", 4, 10),
        "4 downloads of this link run already, which is the most. Wait until one is over and try again.",
    ),
    InternalError: (lambda: InternalError("A fault."), "A fault."),
    UpstreamError: (lambda: UpstreamError("The provider refused."), "The provider refused."),
    ServiceUnavailable: (lambda: ServiceUnavailable("Being mended.", 60), "Being mended."),
    NoHostFree: (
        lambda: NoHostFree(60),
        "No meeting host is free in this time range. Try again later or choose another time.",
    ),
    CreationsUsedUp: (
        lambda: CreationsUsedUp(MIDNIGHT - timedelta(hours=1), MIDNIGHT, is_share=True),
        "This account has used its share of the meetings that can be made today. "
        "More can be made from 2026-12-01T17:00:00Z.",
    ),
}


def descendants(parent: type[DomainError]) -> Iterator[type[DomainError]]:
    for child in parent.__subclasses__():
        yield child
        yield from descendants(child)


@pytest.mark.spec("9/2")
def test_every_code_of_the_spec_is_there_and_no_other() -> None:
    own_errors = {kind for kind in descendants(DomainError) if kind.__module__ == errors.__name__}
    assert {kind: (kind.code, kind.is_final) for kind in own_errors} == CODES
    assert {kind.code for kind in descendants(DomainError)} == {code for code, _ in CODES.values()}


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    drawn = re.findall(r"^    ([│ ]*)[├└]── (\w+) +(\S+)", errors.__doc__ or "", re.MULTILINE)
    parents: dict[int, type[DomainError]] = {-1: DomainError}
    kinds = []
    for indent, name, code in drawn:
        kind = getattr(errors, name)
        depth = len(indent) // 4
        assert kind.__base__ is parents[depth - 1]
        assert kind.code == code or code.startswith("(")
        parents[depth] = kind
        kinds.append(kind)
    assert set(kinds) == set(CODES)
    assert len(kinds) == len(CODES)


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_an_error_shows_its_message_and_is_immutable(kind: type[DomainError]) -> None:
    make, message = ONE_OF_EACH[kind]
    error = make()
    assert type(error) is kind
    assert (error.message, str(error)) == (message, message)
    with pytest.raises(TypeError):
        cast("dict[str, object]", error.details)["added"] = 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InvalidRequest({"title": [], "date": []}),
         "The request is not valid: see details.fields (date, title)."),
        (lambda: InvalidRequest({"title": []}, "Not JSON."), "Not JSON."),
        (lambda: CreationsUsedUp(MIDNIGHT, MIDNIGHT, is_share=False),
         "The hosts that are large enough cannot be given another meeting today. "
         "More can be made from 2026-12-01T17:00:00Z."),
    ],
)  # fmt: skip
def test_a_message_names_every_field_or_its_own_cause(make: Callable[[], DomainError], message: str) -> None:
    assert make().message == message


def test_details_are_a_copy_of_the_argument() -> None:
    fields = {"title": ["is missing"]}
    details: dict[str, object] = {"id": 1}
    invalid, refused = InvalidRequest(fields), Unprocessable("No.", details)
    fields["title"].append("later")
    fields["date"] = ["later"]
    details.clear()
    assert invalid.details == {"fields": {"title": ["is missing"]}}
    assert refused.details == {"id": 1}


@pytest.mark.parametrize(("make", "details"), [
    (lambda: NotFound("No meeting with this id."), {}),
    (lambda: InvalidRequest({"title": ["too long"], "date": ["missing", "odd"]}),
     {"fields": {"title": ["too long"], "date": ["missing", "odd"]}}),
    (lambda: InsufficientScope(("meetings:read", "meetings:write")),
     {"required": ["meetings:read", "meetings:write"]}),
    (lambda: Conflict("Registered already.", 7), {"id": "7"}),
    (lambda: InsufficientCredits(10, -3), {"required": 10, "available": -3}),
    (lambda: CreditCapExceeded(100, 95, 10, MIDNIGHT),
     {"cap": 100, "spent": 95, "required": 10, "resets_at": "2026-12-01T17:00:00Z"}),
    (lambda: RateLimited(20, 60, 13), {"limit": 20, "window_seconds": 60}),
    (lambda: TooManyDownloads("of this link", 4, 10), {"limit": 4, "window_seconds": 1}),
    (lambda: ServiceUnavailable("Being mended.", 60, {"why": "busy"}), {"why": "busy"}),
    (lambda: NoHostFree(60), {}),
    (lambda: CreationsUsedUp(MIDNIGHT, MIDNIGHT + timedelta(microseconds=1), is_share=False),
     {"next_available_at": "2026-12-01T17:00:01Z"}),
    (lambda: NoHostFree(60, MIDNIGHT), {"next_available_at": "2026-12-01T17:00:00Z"}),
])  # fmt: skip
def test_details_hold_the_fields_of_the_contract(
    make: Callable[[], DomainError], details: dict[str, Any]
) -> None:
    assert make().details == details


def test_temporary_errors_state_when_to_retry() -> None:
    assert RateLimited(20, 60, 13).retry_after_s == 13
    assert ServiceUnavailable("Being mended.", 14).retry_after_s == 14
    assert NoHostFree(60, MIDNIGHT).retry_after_s == 60
    early = MIDNIGHT - timedelta(hours=1, microseconds=1)
    assert CreationsUsedUp(early, MIDNIGHT, is_share=True).retry_after_s == 3601
    assert CreationsUsedUp(MIDNIGHT, MIDNIGHT, is_share=False).retry_after_s == 1


@pytest.mark.parametrize("error", [
    CreationsUsedUp(MIDNIGHT - timedelta(hours=1), MIDNIGHT, is_share=False),
    OSError(2, "No such file"),
    KeyError("x"),
])  # fmt: skip
def test_a_copy_of_an_error_is_one_of_its_own(error: Exception) -> None:
    one, other = own_copy(error), own_copy(error)
    assert len({id(each) for each in (error, one, other)}) == 3
    assert (type(one), str(one), vars(one)) == (type(error), str(error), vars(error))
    assert one.__cause__ is error


def test_the_cause_of_a_copy_is_that_of_the_error() -> None:
    cause = ValueError("first")
    error = RuntimeError("then")
    error.__cause__ = cause
    assert own_copy(error).__cause__ is cause


def test_a_record_that_is_missing_is_not_found() -> None:
    assert require_record("one", "meeting") == "one"
    with pytest.raises(NotFound, match=r"^No meeting with this id\.$"):
        require_record(None, "meeting")
