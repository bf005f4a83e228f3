"""Why nobody was signed in by an OpenID provider is logged for the operator, and shown to nobody else."""

from __future__ import annotations

import pytest

from meetcore.adapters.in_process import InProcessRateCounters
from meetcore.composition.observability import LOGGED
from meetcore.domain.errors import Unprocessable
from meetcore.domain.members.identities import FlowSecrets, Identity, flow_secrets, identity_refused
from meetcore.ports.identity import IdentityRefused, IdentityUnavailable, ProviderAnswer
from meetcore.usecases.members.audit import BoundedAuditLog, RefusedSignIns
from meetcore.usecases.members.sign_in_links import Browser
from meetcore.usecases.members.single_sign_on import SignInWithIdentity
from tests.support.kept_log import capture_own_logs
from tests.unit.usecases.application import ApplicationHarness

TOKEN = "t" * 43


class Provider:
    """Answers with an identity, or raises."""

    def __init__(self, outcome: Identity | Exception) -> None:
        self._outcome = outcome

    async def authorization_url(self, flow: FlowSecrets, redirect_uri: str, asks_again: bool) -> str:
        raise IdentityUnavailable("metadata")

    async def identify(self, answer: ProviderAnswer, flow: FlowSecrets, redirect_uri: str) -> Identity:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def refused_sign_ins(harness: ApplicationHarness) -> RefusedSignIns:
    return RefusedSignIns(BoundedAuditLog(harness.store, InProcessRateCounters(), harness.runtime))


@pytest.mark.parametrize("is_operators", [False, True])
@pytest.mark.parametrize(("outcome", "state", "reason"), [
    (IdentityRefused("nonce"), "", "nonce"),
    (IdentityUnavailable("timeout"), "", "timeout"),
    (Identity("https://id", "1", "nobody@example.com", "A"), "", "no access"),
    (Identity("https://id", "1", "nobody@example.com", "A"), "another", "state"),
])  # fmt: skip
async def test_a_refusal_is_one_line_with_its_reason(
    outcome: Identity | Exception, state: str, reason: str, is_operators: bool, harness: ApplicationHarness
) -> None:
    sign_in = SignInWithIdentity(
        harness.store, InProcessRateCounters(), harness.runtime, refused_sign_ins(harness), Provider(outcome),
        "https://meet.example/callback",
        is_operators=is_operators, report=LOGGED.failed_sign_on,
    )  # fmt: skip
    state = state or flow_secrets(TOKEN).state
    with capture_own_logs() as lines, pytest.raises(Unprocessable) as caught:
        await sign_in.enter(TOKEN, state, ProviderAnswer("code"), Browser("cookie"))
    assert caught.value.message == identity_refused().message
    area = "console" if is_operators else "dashboard"
    assert lines == [{"event": "sign-on refused", "log_level": "info", "reason": reason, "area": area}]


async def test_a_provider_that_is_away_is_logged_at_the_start(harness: ApplicationHarness) -> None:
    sign_in = SignInWithIdentity(
        harness.store, InProcessRateCounters(), harness.runtime, refused_sign_ins(harness),
        Provider(IdentityRefused("x")), "https://a.example",
        report=LOGGED.failed_sign_on,
    )  # fmt: skip
    with capture_own_logs() as lines, pytest.raises(Unprocessable):
        await sign_in.ask(TOKEN, None, False)
    assert [line["reason"] for line in lines] == ["metadata"]
