"""What follows from settings in the policy of an application."""

from __future__ import annotations

import base64

import pytest

from meetcore.adapters.settings import SecretStr, Settings
from meetcore.composition.configuration import policy_of
from meetcore.composition.policy import Policy
from meetcore.domain.webhooks.views import ClaimLimits

KEY = SecretStr(base64.urlsafe_b64encode(bytes(32)).decode())


def test_the_defaults_of_settings_are_those_of_the_policy() -> None:
    found, default = policy_of(Settings(secrets_key=KEY)), Policy()
    assert found.claim_limits == ClaimLimits() == default.claim_limits
    for name in ("quotas", "unknown_keys_at_once", "retry_schedule", "note_schedule", "retention"):
        assert getattr(found, name) == getattr(default, name)


@pytest.mark.parametrize(("provider", "wait_s", "expected_s"), [
    ("zoom", "", 1800), ("sandbox", "", 0), ("jitsi", "", 0), ("zoom", "0", 0), ("sandbox", "90", 90),
])  # fmt: skip
def test_a_transcript_is_waited_for_as_long_as_its_provider_takes(
    provider: str, wait_s: str, expected_s: int
) -> None:
    settings = Settings(secrets_key=KEY, provider=provider, transcript_wait_s=wait_s)
    assert policy_of(settings).transcript_wait_s == expected_s


def test_posts_at_a_host_and_in_flight_scale_their_limits() -> None:
    settings = Settings(secrets_key=KEY, webhook_posts_per_host=160, webhook_posts_in_flight=8)
    assert policy_of(settings).claim_limits == ClaimLimits(
        total=8, per_account=8, per_host=160, per_host_per_s=500
    )


def test_unknown_keys_take_a_quarter_of_the_connections() -> None:
    def at_once(pool_size: int) -> int:
        return policy_of(Settings(secrets_key=KEY, database_pool_size=pool_size)).unknown_keys_at_once

    assert [at_once(size) for size in (1, 4, 40)] == [1, 1, 10]
