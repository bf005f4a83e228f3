"""Tokens of the operator's programs: their form, and when one works."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import InvalidApiKey
from meetcore.domain.members import operators
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.sign_in import token_digest
from meetcore.domain.requests.keys import mint

AT = datetime(2026, 12, 1, tzinfo=UTC)
NEEDED = "An operator's token is needed. Send it as: Authorization: Bearer <TOKEN>."
FOREIGN = "An operator's token begins with mk_operator_; an API key is none."
REFUSED = (
    "The operator's token is wrong, revoked or expired. Make one with `meetcore operator token create` and "
    "send it as: Authorization: Bearer <TOKEN>."
)
TOKEN = operators.OperatorToken(
    UUID(int=1), "backend", OperatorRole.SUPPORT, "AAAA", AT, AT + timedelta(days=1)
)


@given(st.binary(min_size=32, max_size=32))
def test_a_token_that_was_made_is_read_again(random: bytes) -> None:
    text = mint("mk", random, operators.OPERATOR)
    assert text.startswith("mk_operator_")
    assert len(text) == 55
    assert operators.read_operator_token(f"Bearer {text}", "mk") == token_digest(text)
    assert operators.read_operator_token(f"bearer   {text} ", "mk") == token_digest(text)


@pytest.mark.parametrize(("header", "problem"), [
    (None, NEEDED),
    ("", NEEDED),
    ("Bearer ", NEEDED),
    ("Basic mk_operator_" + "A" * 43, NEEDED),
    ("Bearer mk_live_" + "A" * 43, FOREIGN),
    ("Bearer mk_operator_" + "A" * 42, REFUSED),
    ("Bearer mk_operator_" + "A" * 44, REFUSED),
    ("Bearer mk_operator_" + "A" * 42 + "!", REFUSED),
    ("Bearer mk_operator_" + "A" * 43 + "X", REFUSED),
    ("Bearer \tmk_operator_" + "A" * 43, FOREIGN),
])  # fmt: skip
def test_what_is_no_token_is_refused(header: str | None, problem: str) -> None:
    with pytest.raises(InvalidApiKey) as refusal:
        operators.read_operator_token(header, "mk")
    assert refusal.value.message == problem


def test_a_token_works_until_it_expires_or_is_revoked() -> None:
    assert operators.check_token_usable(TOKEN, TOKEN.expires_at - timedelta(microseconds=1)) is TOKEN
    for token, at in (
        (None, AT),
        (TOKEN, TOKEN.expires_at),
        (evolve(TOKEN, revoked_at=AT + timedelta(hours=1)), AT),
    ):
        with pytest.raises(InvalidApiKey) as refusal:
            operators.check_token_usable(token, at)
        assert refusal.value.message == REFUSED


def test_a_token_is_valid_for_days() -> None:
    assert operators.check_days(1) == timedelta(days=1)
    assert operators.check_days(operators.MAX_TOKEN_DAYS) == timedelta(days=730)
    for days in (0, -1, operators.MAX_TOKEN_DAYS + 1):
        with pytest.raises(operators.InvalidDays, match=r"^a token is valid for 1 to 730 days$"):
            operators.check_days(days)


def test_the_log_names_the_token() -> None:
    actor = Actor(ActorKind.OPERATOR, TOKEN.id, "token backend")
    assert operators.token_origin(TOKEN, "192.0.2.1") == ActionOrigin(actor, "192.0.2.1")
