"""Sign-in at an OpenID provider: what binds an answer to its browser."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from meetcore.domain.members.identities import (
    CLOCK_SKEW,
    Identity,
    OtherSubject,
    flow_secrets,
    identity_refused,
    is_state,
    proved_at,
)
from meetcore.domain.members.passkeys import PasskeyOwner
from meetcore.domain.members.sessions import FRESH_FOR

AT = datetime(2026, 3, 2, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_what_a_sign_in_is_recognised_by_follows_from_its_token() -> None:
    one, other = flow_secrets("one"), flow_secrets("other")
    assert one == flow_secrets("one")
    values = [each for flow in (one, other) for each in (flow.state, flow.nonce, flow.code_verifier)]
    assert len({*values}) == 6
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", each) for each in values), "as RFC 7636 wants a verifier"
    assert not [each for each in values if each in repr(one)]


def test_the_values_are_those_of_any_release() -> None:
    """A sign-in goes on while processes of two releases answer."""
    flow = flow_secrets("token")
    assert flow.state == "wK5uHZoHiiUnqmm2k3eSmXHyFr5esNBx2tZoFWtaofw"
    assert flow.nonce == "fULg7_9hdeh1E-1lfWU9b3V0Q3NG6UrJlwOTvhuvPhI"
    assert flow.code_verifier == "tA340U58YBOs_qJODZBi6OG7vD73kmqTRPn9jRqkFF0"
    assert flow.code_challenge == "gfTgMEYKMq5q56-oN7y1FRz4SdG_wDRAiJ3-QQgpInw"


@pytest.mark.parametrize(("authenticated_at", "expected"), [
    (None, AT - FRESH_FOR),
    (AT, AT),
    (AT - SECOND, AT - SECOND),
    (AT + CLOCK_SKEW, AT),
    (AT + CLOCK_SKEW + SECOND, AT - FRESH_FOR),
])  # fmt: skip
def test_a_session_is_as_old_as_its_proof(authenticated_at: datetime | None, expected: datetime) -> None:
    assert (
        proved_at(Identity("https://id", "1", "dewi@example.com", "Dewi", authenticated_at), AT) == expected
    )


def test_a_state_is_that_of_the_sign_in() -> None:
    flow = flow_secrets("one")
    assert is_state(flow.state, flow)
    for text in ("", flow.state[:-1], flow.state + "a", flow_secrets("other").state, flow.nonce, "é"):
        assert not is_state(text, flow)


def test_one_refusal_stands_for_every_reason() -> None:
    assert identity_refused().message == (
        "The sign-in did not work, or this address has no access. Try again, or ask an owner of the account."
    )


def test_another_subject_names_its_owner_and_what_to_do() -> None:
    refusal = OtherSubject(PasskeyOwner(UUID(int=1)))
    assert refusal.owner == PasskeyOwner(UUID(int=1))
    assert refusal.message == (
        "The provider knows another person by this e-mail address than before. "
        "Ask the operator of the service."
    )
